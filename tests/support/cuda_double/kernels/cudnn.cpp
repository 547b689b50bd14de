// cuDNN has no double: as where it refuses a call, our own kernels attend.
#include "framework/kernels/cuda/attention/calls.h"

namespace hexad::kernels::cuda {

bool cudnn_attention(Stream&, const AttentionForward&) { return false; }
bool cudnn_attention(Stream&, const AttentionBackward&) { return false; }

}  // namespace hexad::kernels::cuda
