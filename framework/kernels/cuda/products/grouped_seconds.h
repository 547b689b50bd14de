// How long a grouped product takes on an H100 by either way, from measured rates: what grouped.cpp chooses by, as EPS-MoE
// does between GroupGEMM and DenseGEMM by the load of the experts (Section 4.1).
#pragma once

#include <algorithm>
#include <span>

#include "framework/kernels/cuda/products/group_problem.h"
#include "framework/kernels/write.h"

namespace hexad::kernels::cuda {

/// Experts of w[E, features, width], of which expert e has the rows offsets[e] to offsets[e + 1].
struct GroupedSizes {
  int64_t features, width;
  std::span<const int64_t> offsets;
};

}  // namespace hexad::kernels::cuda
