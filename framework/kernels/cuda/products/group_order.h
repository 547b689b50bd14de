// Order in which multiprocessors take the tiles of the groups of a grouped product.
#pragma once

#include <cstdint>

#include "framework/kernels/cuda/products/group_problem.h"

namespace hexad::kernels::cuda {

/// Returns the position of group e in the list of groups of a pass. The multiprocessors take the tiles of the groups in
/// turn, in the order of this list, regardless of the work of a tile.
///
/// - weight gradient: by descending number of rows. Groups with equal numbers of rows keep their order. The sums of a
///   tile have as many terms as the group has rows. If long tiles came last, or if several of them went to one
///   multiprocessor, the other multiprocessors would wait.
/// - forward and input gradient: in the given order. Here, the number of rows determines only the number of tiles, and
///   all sums have the same length.
///
/// `offsets` is [groups + 1]. The positions of all groups form a permutation. For the weight gradient, a call takes
/// `groups` steps.
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
