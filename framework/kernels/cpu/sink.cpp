#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/pointwise_loops.h"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/operand_checks.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& log_sum_exp, const Tensor& sinks) {
  stream.run([=] {
    check_sinks(out, log_sum_exp, sinks);
    with_dtype<float, bf16, double>("sink", out.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> O(out);
      const int64_t heads = out.dim(1);
      A* sums = log_sum_exp.data<A>();
      const A* logits = sinks.data<A>();
      const auto scale = choose<T>(v3::pointwise_loops, v4::pointwise_loops).scale;
      parallel_for(O.count(), row_grain(O.width()), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const A sink = logits[r % heads], top = std::max(sums[r], sink);
          const A both = top + std::log(std::exp(sums[r] - top) + std::exp(sink - top));
          scale(O[r], std::exp(sums[r] - both), O.width());
          sums[r] = both;
        }
      });
    });
  });
}

void backward(Stream& stream, const Tensor& dsinks, const Tensor& dout, const Tensor& out, const Tensor& log_sum_exp,
              const Tensor& sinks) {
  stream.run([=] {
    check_sinks(out, log_sum_exp, sinks);
    require_shape("sink", "dout", dout, out.shape());
    require_flat("sink", "dsinks", dsinks, log_sum_exp.numel());
    with_dtype<float, bf16, double>("sink", out.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> O(out), DO(dout);
      const int64_t heads = out.dim(1);
      const A *sums = log_sum_exp.data<A>(), *logits = sinks.data<A>();
      A* gradients = dsinks.data<A>();
      const auto dot = choose<T>(v3::pointwise_loops, v4::pointwise_loops).dot;
      parallel_for(O.count(), row_grain(O.width()), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          gradients[r] = -std::exp(logits[r % heads] - sums[r]) * dot(DO[r], O[r], O.width());
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const SinkKernels SinkKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
