// RMS norm over heads that are divided among tensor-parallel ranks.
#pragma once

#include "parallel/tp/tensor_parallel.h"
#include "parallel/tp/tp_names.h"

namespace hexad::tp {

struct NormedHeads {
  Value q, k;
};

/// Returns the RMS norms of q[T, D of this rank] and k[T, D' of this rank], each over the columns of all ranks. The
/// gains are divided like the columns. Each rank computes only an addend of the gradient of its columns of k if several
/// ranks hold these columns. Forward and backward each exchange two numbers per row. In a group of one rank, these are
/// two plain norms.
NormedHeads split_rms_norms(Tape& tape, const Value& q, Parameter& q_gain, const Value& k, Parameter& k_gain,
                            double eps, const ProcessGroup& group);

}  // namespace hexad::tp
