// The flat buckets of gradients and weights, by size: mirrors dp::BucketPlan.
#pragma once

#include <set>
#include <span>

#include "tools/plan/held_parameters.h"

namespace hexad::plan {

/// Parameters of a rank that lie together.
struct BucketSize {
  HeldParameters like;           // `elements`: of all, with the gaps between them
  size_t unit = 0;               // buckets of a unit come and go together
  std::vector<int64_t> entries;  // elements of each parameter
  int64_t largest_sum = 0;       // elements of the largest parameter that takes several contributions a micro-batch
  std::set<int> layers{};        // whose experts some of them are, numbered in this order
  int64_t zero = 0;              // the level that holds here

  int64_t piece() const { return like.elements / like.sharers; }
};

/// `held` in the order of held_parameters().
std::vector<BucketSize> bucket_sizes(const train::Recipe& recipe, const mesh::Layout& layout,
                                     std::span<const HeldParameters> held);

}  // namespace hexad::plan
