// Order of the groups of a grouped product. The multiprocessors take their tiles in this order.
#pragma once

#include <cstdint>

#include "framework/kernels/cuda/products/group_problem.h"

namespace hexad::kernels::cuda {

/// Returns the place of group e in the list of a pass. Tiles are assigned to multiprocessors in the order of the list,
/// in turn and regardless of their lengths.
///   weight gradient           by falling rows; groups with equal rows keep their order. A tile's sum is as long as the
///                             group has rows. Long tiles that come last, or several to one multiprocessor, keep the
///                             others waiting.
///   forward, input gradient   as they are. Rows decide the number of tiles there, and all tiles' sums are equally
///   long.
/// `offsets`: [groups + 1]. The places of all groups are a permutation. Takes `groups` steps for the weight gradient.
constexpr int64_t place_of_group(GroupedPass pass, int64_t e, const int64_t* offsets, int64_t groups) {
  if (pass != GroupedPass::weight_gradient) return e;
  const int64_t rows = offsets[e + 1] - offsets[e];
  int64_t place = 0, begin = offsets[0];
  for (int64_t other = 0; other < groups; ++other) {
    const int64_t end = offsets[other + 1], others = end - begin;
    place += others > rows || (others == rows && other < e) ? 1 : 0;
    begin = end;
  }
  return place;
}

}  // namespace hexad::kernels::cuda
