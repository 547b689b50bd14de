#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/activation_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void rotate(const Tensor& out, const Tensor& x, const Tensor& positions, const Tensor& cosine, const Tensor& sine,
            Direction direction) {
  if (!x.defined()) return;
  with_dtype<float, bf16, double>("rotary", x.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    const int64_t context = cosine.dim(0), half = cosine.dim(1);
    require(x.rank() == 3 && 2 * half <= x.dim(2), "[rotary] x has shape ", x.shape(),
            "; expected [T, H, C] with C at least ", 2 * half);
    const int64_t heads = x.dim(1), size = x.dim(2);
    require_shape("rotary", "out", out, x.shape());
    require_shape("rotary", "cosine", cosine, {context, half});
    require_shape("rotary", "sine", sine, {context, half});
    require_flat("rotary", "positions", positions, x.dim(0));
    const int32_t* position = checked_indices<int32_t>("rotary", "positions", positions, 0, context);
    const A *c = cosine.data<A>(), *s = sine.data<A>();
    const A sign = direction == Direction::forward ? A(1) : A(-1);
    const Rows<T> X(x), Y(out);
    const auto loop = choose<T>(v3::activation_loops, v4::activation_loops).rotate;
    parallel_for(x.dim(0), row_grain(heads * size), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin * heads; row < end * heads; ++row) {
        const int64_t angles = position[row / heads] * half;
        loop(Y[row], X[row], c + angles, s + angles, sign, half);
        if (2 * half < size && Y[row] != X[row]) std::copy_n(X[row] + 2 * half, size - 2 * half, Y[row] + 2 * half);
      }
    });
  });
}

void apply(Stream& stream, const QueriesAndKeys& out, const QueriesAndKeys& x, const Tensor& positions,
           const Tensor& cosine, const Tensor& sine, Direction direction) {
  stream.run([=] {
    rotate(out.q, x.q, positions, cosine, sine, direction);
    rotate(out.k, x.k, positions, cosine, sine, direction);
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const RotaryKernels RotaryKernels::of_cpu{.apply = cpu::apply};

}  // namespace hexad::kernels
