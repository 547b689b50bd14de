#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/activation_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

// Computes the losses and gradients of rows. Gradients are computed in the accumulator type: in place if dlogits has
// this type, otherwise in separate memory.
template <class A, class D>
void rows(const Rows<A>& X, const Tensor& dlogits, const int32_t* target, A* loss, A scale) {
  const auto& loops = choose<A>(v3::activation_loops, v4::activation_loops);
  const auto round = choose<D>(v3::pointwise_loops, v4::pointwise_loops).convert.template from<A>();
  const Rows<D> DX(dlogits);
  const int64_t width = X.width();
  parallel_for(X.count(), row_grain(width), [&](int64_t begin, int64_t end) {
    std::vector<A> wide(std::is_same_v<A, D> ? 0 : static_cast<size_t>(width));
    for (int64_t t = begin; t < end; ++t) {
      const bool ignored = target[t] < 0;
      A* gradient = wide.data();
      if constexpr (std::is_same_v<A, D>) gradient = DX[t];
      loss[t] = ignored ? A(0) : loops.cross_entropy(scale != 0 ? gradient : nullptr, X[t], width, target[t], scale);
      if (ignored || scale == 0)
        std::fill_n(DX[t], width, D(0.0f));
      else if constexpr (!std::is_same_v<A, D>)
        round(DX[t], gradient, width);
    }
  });
}

template <class A>
void losses_alone(const Rows<A>& X, const int32_t* target, A* loss) {
  const auto row = choose<A>(v3::activation_loops, v4::activation_loops).cross_entropy;
  parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      loss[t] = target[t] < 0 ? A(0) : row(nullptr, X[t], X.width(), target[t], A(0));
  });
}

void forward(Stream& stream, const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& targets,
             double scale) {
  stream.run([=] {
    with_dtype<float, double>("cross_entropy", logits.dtype(), [&]<class A>() {
      const Rows<A> X(logits);
      require_flat("cross_entropy", "losses", losses, X.count());
      require_flat("cross_entropy", "targets", targets, X.count());
      const int32_t* target = checked_indices<int32_t>("cross_entropy", "targets", targets, -1, X.width());
      A* loss = losses.data<A>();
      if (!dlogits.defined()) return losses_alone(X, target, loss);
      require_shape("cross_entropy", "dlogits", dlogits, logits.shape());
      with_dtype<float, bf16, double>("cross_entropy", dlogits.dtype(),
                                      [&]<class D>() { rows<A, D>(X, dlogits, target, loss, static_cast<A>(scale)); });
    });
  });
}

// Returns a small number of rows, so that the logits of a block are still in the last-level cache when the gradients
// are computed.
int64_t block_rows(int64_t, int64_t) { return base::block_sizes().logit_rows; }

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const CrossEntropyKernels CrossEntropyKernels::of_cpu{.forward = cpu::forward, .block_rows = cpu::block_rows};

}  // namespace hexad::kernels
