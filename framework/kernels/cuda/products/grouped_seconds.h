// Time of a grouped product on an H100 by either implementation, from measured rates. grouped.cpp chooses by it, as
// EPS-MoE switches between GroupGEMM and DenseGEMM by the experts' load.
#pragma once

#include <cstddef>
#include <span>

#include "framework/kernels/cuda/products/group_problem.h"

namespace hexad::kernels::cuda {

/// Sizes of bf16 products of w[E, features, width]. Expert e has the rows offsets[e] to offsets[e + 1].
struct GroupedProduct {
  GroupedPass pass;
  int64_t features, width;
  std::span<const int64_t> offsets;
  bool adds;  // true if a weight gradient in f32 is added to the old values, which are then read, too

  double flops(int64_t rows) const {
    return 2 * static_cast<double>(rows) * static_cast<double>(features) * static_cast<double>(width);
  }
  /// Calls f(rows) for every expert that has rows.
  template <class F>
  constexpr void for_each_busy(const F& f) const {
    for (size_t e = 0; e + 1 < offsets.size(); ++e)
      if (offsets[e] < offsets[e + 1]) f(offsets[e + 1] - offsets[e]);
  }
};

/// Returns the seconds of one dense product per expert, one after the other. Each product fills the card, except at its
/// start and end.
inline double seconds_one_by_one(const GroupedProduct& p) {
  constexpr double start = 5.5e-6;
  const double rate = p.pass == GroupedPass::weight_gradient ? 750e12 : 815e12;
  double seconds = 0;
  p.for_each_busy([&](int64_t rows) { seconds += start + p.flops(rows) / rate; });
  return seconds;
}

/// Returns the seconds of CUTLASS's kernel for all experts. Every tile costs a start and an end, which matter less with
/// longer sums.
inline double seconds_in_one_kernel(const GroupedProduct& p) {
  const bool of_weight = p.pass == GroupedPass::weight_gradient;
  double seconds = 0;
  p.for_each_busy([&](int64_t rows) {
    const auto terms = static_cast<double>(of_weight                               ? rows
                                           : p.pass == GroupedPass::input_gradient ? p.features
                                                                                   : p.width);
    const double per_flop =
        of_weight ? (p.adds ? 1.34e-15 : 1.19e-15) + 1.387e-12 / terms : 0.986e-15 + 1.18e-12 / terms;
    seconds += p.flops(rows) * per_flop;
  });
  return seconds;
}

}  // namespace hexad::kernels::cuda
