#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void multiply(const Tensor& out, const Tensor& a, const Tensor& b) {
  const int64_t n = out.numel();
  for (const auto& [name, t] : {std::pair{"a result", out}, {"an operand", a}, {"an operand", b}})
    require_flat("multiply", name, t, n);
  with_dtype<float, bf16, double>("multiply", out.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    parallel_elements(n, [y = out.data<T>(), p = a.data<T>(), q = b.data<T>()](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(static_cast<A>(p[i]) * static_cast<A>(q[i]));
    });
  });
}

void forward(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  stream.run([=] { multiply(out, a, b); });
}

void backward(Stream& stream, const Tensor& da, const Tensor& db, const Tensor& dout, const Tensor& a,
              const Tensor& b) {
  stream.run([=] {
    multiply(da, dout, b);
    multiply(db, dout, a);
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const MultiplyKernels MultiplyKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
