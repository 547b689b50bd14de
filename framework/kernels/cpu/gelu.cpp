#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/activation_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& x, GeluKind kind) {
  stream.run([=] {
    with_dtype<float, bf16, double>("gelu", x.dtype(), [&]<class T>() {
      require_flat("gelu", "x", x, x.numel());
      require_flat("gelu", "out", out, x.numel());
      const auto& loops = choose<T>(v3::activation_loops, v4::activation_loops);
      const auto loop = kind == GeluKind::exact ? loops.gelu_exact_forward : loops.gelu_tanh_forward;
      parallel_elements(x.numel(), [&, y = out.data<T>(), in = x.data<T>()](int64_t begin, int64_t end) {
        loop(y + begin, in + begin, end - begin);
      });
    });
  });
}

void backward(Stream& stream, const Tensor& dx, const Tensor& dout, const Tensor& x, GeluKind kind) {
  stream.run([=] {
    with_dtype<float, bf16, double>("gelu", x.dtype(), [&]<class T>() {
      require_flat("gelu", "x", x, x.numel());
      require_flat("gelu", "dx", dx, x.numel());
      require_flat("gelu", "dout", dout, x.numel());
      const auto& loops = choose<T>(v3::activation_loops, v4::activation_loops);
      const auto loop = kind == GeluKind::exact ? loops.gelu_exact_backward : loops.gelu_tanh_backward;
      parallel_elements(x.numel(),
                        [&, d = dx.data<T>(), g = dout.data<T>(), in = x.data<T>()](int64_t begin, int64_t end) {
                          loop(d + begin, g + begin, in + begin, end - begin);
                        });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const GeluKernels GeluKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
