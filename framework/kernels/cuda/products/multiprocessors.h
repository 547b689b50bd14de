// Number of multiprocessors that a product, or another kernel whose blocks divide the work in advance, may use.
#pragma once

#include <algorithm>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/compute_share.h"

namespace hexad::kernels::cuda {

/// Returns the number of multiprocessors for a kernel that this thread launches: a product, or a kernel whose blocks
/// divide the work in advance. Without a limit, the result is the number of all multiprocessors. Otherwise it excludes
/// reserved multiprocessors, is within the thread's compute share, and is even and at least two.
inline int multiprocessors_of_products(const device::cuda::Card& card) {
  const int all = card.multiprocessors(), left = all - card.reserved();
  if (left == all && compute_share() == 1) return all;
  return std::min(capped_multiprocessors(left, 1), capped_multiprocessors(all, compute_share()));
}

}  // namespace hexad::kernels::cuda
