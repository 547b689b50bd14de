// Measurement of a machine by `hexad profile` (docs/profile.md).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/process_group.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Shape of a grouped product. Each expert's weight maps rows of `inputs` columns to rows of `outputs` columns.
struct ProductShape {
  int64_t experts, inputs, outputs;
};
/// Default shapes: experts of the quickstart's size (256 x 512), and two larger shapes.
inline const std::vector<ProductShape> usual_products{{8, 512, 1024}, {8, 256, 512}, {4, 1024, 4096}};

/// Numbers and sizes of the heads with which attention is measured.
struct AttentionHeads {
  int64_t heads, head_size;
};
/// Default heads: usual sizes, and a single head, which several threads share.
inline const std::vector<AttentionHeads> usual_heads{{8, 64}, {8, 32}, {8, 128}, {1, 64}};

struct ProfileOptions {
  double seconds = 120;                // approximate duration of all measurements
  int octaves = 1;                     // each measured message size is 2^octaves times the previous size
  int64_t largest_bytes = 16ll << 20;  // largest size of a message or copy
  int64_t largest_rows = 4096;         // largest number of rows of a product
  int64_t row_ratio = 2;               // ratio of successive numbers of rows
  int64_t longest_sequence = 1024;     // largest number of positions in attention
  int64_t max_in_use = 1ll << 30;      // most bytes of operands that operations of one kind use in turn
  int rounds = 3;                      // measurements of each slowdown, of which the median counts
  int threads = 1;                     // number of threads of each rank's kernels
  std::string offload_folder = "/tmp";
  // Cores that the ranks of this node may use together; none: not known, so the ranks are assumed to share no cores.
  std::optional<int64_t> node_cores{};
  std::vector<ProductShape> products = usual_products;
  std::vector<AttentionHeads> attention = usual_heads;
};
/// Returns options with few sizes for a first trial, which takes about ten seconds.
ProfileOptions quick_profile();

/// Receives occasional progress lines on rank 0.
using Progress = std::function<void(const std::string&)>;

/// Measures the machine. Collective over `world`; every rank gets the same result. Fills in only these members of
/// Origin: nodes, ranks_per_node, threads, node_cores and waiting.
Cluster measure(const comm::ProcessGroup& world, const ProfileOptions& options, const Progress& progress);

/// Returns tables of the measurements as text for users.
std::string profile_table(const Cluster& cluster);

}  // namespace hexad::plan
