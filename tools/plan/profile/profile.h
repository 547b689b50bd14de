// Measures a machine: what `hexad profile` does (docs/profile.md).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/process_group.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Shape of a grouped product: rows of `inputs` columns become rows of `outputs`, each expert's by its own weight.
struct ProductShape {
  int64_t experts, inputs, outputs;
};
/// Experts of the quickstart's size, and two that outgrow the caches.
inline const std::vector<ProductShape> usual_products{{8, 512, 1024}, {8, 256, 512}, {4, 1024, 4096}};

struct ProfileOptions {
  double seconds = 120;                // about, for everything together
  int octaves = 1;                     // from one size of a message to the next
  int64_t largest_bytes = 16ll << 20;  // of a message or copy
  int64_t largest_rows = 4096;         // of a product
  int rounds = 3;                      // of slowdowns; their medians count
  int threads = 1;                     // of kernels
  std::string offload_folder = "/tmp";
  std::vector<ProductShape> products = usual_products;
};
/// Few sizes and about four seconds, to try it out.
ProfileOptions quick_profile();

/// One line now and then, from rank 0.
using Progress = std::function<void(const std::string&)>;

/// Collective over `world`; every rank gets the same. Of Origin the machine's sizes are filled in.
Cluster measure(const comm::ProcessGroup& world, const ProfileOptions& options, const Progress& progress);

/// A table for people.
std::string profile_table(const Cluster& cluster);

}  // namespace hexad::plan
