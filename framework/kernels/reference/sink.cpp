#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& log_sum_exp, const Tensor& sinks) {
  stream.run([=] {
    Array O = load(out), L = load(log_sum_exp);
    const Array S = load(sinks);
    for (int64_t r = 0; r < L.size(); ++r) {
      const double sink = S[r % S.size()], top = std::max(L[r], sink);
      const double both = top + std::log(std::exp(L[r] - top) + std::exp(sink - top));
      for (int64_t c = 0; c < O.columns; ++c) O(r, c) *= std::exp(L[r] - both);
      L[r] = both;
    }
    store(out, O);
    store(log_sum_exp, L);
  });
}

// The sink's value is zero. The gradient of its logit is therefore -p <dO, O> for its probability p.
void backward(Stream& stream, const Tensor& dsinks, const Tensor& dout, const Tensor& out, const Tensor& log_sum_exp,
              const Tensor& sinks) {
  stream.run([=] {
    const Array DO = load(dout), O = load(out), L = load(log_sum_exp), S = load(sinks);
    Array DS = zeros(dsinks);
    for (int64_t r = 0; r < L.size(); ++r) {
      double dot = 0;
      for (int64_t c = 0; c < O.columns; ++c) dot += DO(r, c) * O(r, c);
      DS[r] = -std::exp(S[r % S.size()] - L[r]) * dot;
    }
    store(dsinks, DS);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const SinkKernels SinkKernels::of_reference{.forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
