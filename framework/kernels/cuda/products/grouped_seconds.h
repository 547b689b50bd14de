// Predicted time of a grouped product on an H100 for each implementation, from measured rates. grouped.cpp chooses the
// faster implementation. EPS-MoE similarly chooses between GroupGEMM and DenseGEMM depending on the load of the
// experts.
#pragma once

#include <cstddef>
#include <span>

#include "framework/kernels/cuda/products/group_problem.h"

namespace hexad::kernels::cuda {

/// Sizes of bf16 products with w[E, features, width]. Expert e has rows [offsets[e], offsets[e + 1]).
struct GroupedProduct {
  GroupedPass pass;
  int64_t features, width;
  std::span<const int64_t> offsets;
  /// Bytes moved for each element of the weights or their gradients:
  /// - w: 2, because w is read
  /// - dw: the size of an element, or twice this size if the result is added to dw
  int64_t weight_bytes = 2;
};

/// Rates of an implementation: seconds = groups * start + operations / operations_per_second + bytes /
/// bytes_per_second. The rates are fitted to times that tools/bench/products_of_experts.cpp measured on an H100 80GB
/// HBM3 (docs/reports/gpu-h100.md). They are therefore not physical limits of the card.
struct GroupedRates {
  double start = 0;  // seconds for each group that has rows
  double operations_per_second, bytes_per_second;

  constexpr double seconds(const GroupedProduct& p) const {
    double sum = 0;
    for (size_t e = 0; e + 1 < p.offsets.size(); ++e) {
      const auto rows = static_cast<double>(p.offsets[e + 1] - p.offsets[e]), width = static_cast<double>(p.width),
                 features = static_cast<double>(p.features);
      if (rows == 0) continue;
      const double bytes = 2 * rows * (width + features) + width * features * static_cast<double>(p.weight_bytes);
      sum += start + 2 * rows * width * features / operations_per_second + bytes / bytes_per_second;
    }
    return sum;
  }
};

/// Returns the predicted seconds of separate dense products, one for each expert.
constexpr double seconds_one_by_one(const GroupedProduct& p) {
  constexpr GroupedRates of_rows{5.36e-6, 751e12, 1e18}, of_weights{2.1e-6, 1240e12, 2.31e12};
  return (p.pass == GroupedPass::weight_gradient ? of_weights : of_rows).seconds(p);
}

/// Returns the predicted seconds of CUTLASS's kernel for all experts together.
constexpr double seconds_in_one_kernel(const GroupedProduct& p) {
  constexpr GroupedRates of_rows{0, 739e12, 13.2e12}, of_weights{0, 845e12, 3.7e12};
  return (p.pass == GroupedPass::weight_gradient ? of_weights : of_rows).seconds(p);
}

}  // namespace hexad::kernels::cuda
