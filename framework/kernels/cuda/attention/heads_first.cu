#include "framework/kernels/cuda/attention/operands.cuh"

namespace hexad::kernels::cuda {
namespace {

constexpr int side = 32;

// Transposes squares of `side` positions x `side` heads through shared memory. A block has side x 8 threads.
__global__ void transpose(float* out, const float* x, int64_t positions, int64_t heads, int64_t head_squares,
                          int64_t position_squares) {
  __shared__ float square[side][side + 1];
  const int64_t head0 = blockIdx.x % head_squares * side, rest = blockIdx.x / head_squares;
  const int64_t position0 = rest % position_squares * side, sequence = rest / position_squares;
  const int lane = static_cast<int>(threadIdx.x) % side, step = static_cast<int>(blockDim.x) / side;
  for (int r = static_cast<int>(threadIdx.x) / side; r < side; r += step) {
    const int64_t s = position0 + r, h = head0 + lane;
    if (s < positions && h < heads) square[r][lane] = x[(sequence * positions + s) * heads + h];
  }
  __syncthreads();
  for (int r = static_cast<int>(threadIdx.x) / side; r < side; r += step) {
    const int64_t h = head0 + r, s = position0 + lane;
    if (s < positions && h < heads) out[(sequence * heads + h) * positions + s] = square[lane][r];
  }
}

}  // namespace

void heads_first(Stream& stream, const Tensor& out, const Tensor& x) {
  const int64_t sequences = out.dim(0), heads = out.dim(1), positions = out.dim(2);
  const int64_t head_squares = (heads + side - 1) / side, position_squares = (positions + side - 1) / side;
  launch("attention", transpose, sequences * head_squares * position_squares, side * 8, stream, pointer<float>(out),
         pointer<float>(x), positions, heads, head_squares, position_squares);
}

}  // namespace hexad::kernels::cuda
