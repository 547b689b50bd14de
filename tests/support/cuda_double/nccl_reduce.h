// Reductions of the double of NCCL.
#pragma once

#include <nccl.h>

#include <vector>

namespace hexad::cuda_double {

size_t size_of(ncclDataType_t type);
/// True if the double supports reductions of elements of `type`.
bool can_reduce(ncclDataType_t type);
/// Reduces the elements of all `in` by `op` into out[count]. The order is that of a ring, which begins after rank
/// `last` and ends at rank `last`. `out` may be one of `in`.
void reduce_in_ring(void* out, const std::vector<const void*>& in, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    int last);

}  // namespace hexad::cuda_double
