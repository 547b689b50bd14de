#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/activation_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

// Returns memory for one row of elements of the accumulator type A, or an empty vector if `needed` is false.
template <class A>
std::vector<A> scratch_row(bool needed, int64_t width) {
  return std::vector<A>(needed ? static_cast<size_t>(width) : 0);
}

// Returns a row of logits in the accumulator type A. If the logits have another dtype L, the result is in `scratch`.
template <class A, class L>
const A* widened(std::vector<A>& scratch, const L* row) {
  if constexpr (std::is_same_v<A, L>) {
    return row;
  } else {
    const auto& convert = choose<A>(v3::pointwise_loops, v4::pointwise_loops).convert;
    convert.template from<L>()(scratch.data(), row, std::ssize(scratch));
    return scratch.data();
  }
}

// Computes the losses and gradients of rows. Gradients are computed in the accumulator type A: in place if dlogits has
// this type, otherwise in separate memory.
template <class L, class D, class A = base::accumulator_t<L>>
void rows(const Rows<L>& X, const Tensor& dlogits, const int32_t* target, A* loss, A scale) {
  const auto& loops = choose<A>(v3::activation_loops, v4::activation_loops);
  const auto round = choose<D>(v3::pointwise_loops, v4::pointwise_loops).convert.template from<A>();
  const Rows<D> DX(dlogits);
  const int64_t width = X.width();
  parallel_for(X.count(), row_grain(width), [&](int64_t begin, int64_t end) {
    auto wide = scratch_row<A>(!std::is_same_v<A, L> || !std::is_same_v<A, D>, width);
    for (int64_t t = begin; t < end; ++t) {
      const bool ignored = target[t] < 0;
      A* gradient = wide.data();
      if constexpr (std::is_same_v<A, D>) gradient = DX[t];
      loss[t] =
          ignored ? A(0)
                  : loops.cross_entropy(scale != 0 ? gradient : nullptr, widened(wide, X[t]), width, target[t], scale);
      if (ignored || scale == 0)
        std::fill_n(DX[t], width, D(0.0f));
      else if constexpr (!std::is_same_v<A, D>)
        round(DX[t], gradient, width);
    }
  });
}

template <class L, class A = base::accumulator_t<L>>
void losses_alone(const Rows<L>& X, const int32_t* target, A* loss) {
  const auto row = choose<A>(v3::activation_loops, v4::activation_loops).cross_entropy;
  parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
    auto wide = scratch_row<A>(!std::is_same_v<A, L>, X.width());
    for (int64_t t = begin; t < end; ++t)
      loss[t] = target[t] < 0 ? A(0) : row(nullptr, widened(wide, X[t]), X.width(), target[t], A(0));
  });
}

void forward(Stream& stream, const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& targets,
             double scale) {
  stream.run([=] {
    with_dtype<float, bf16, double>("cross_entropy", logits.dtype(), [&]<class L>() {
      using A = base::accumulator_t<L>;
      const Rows<L> X(logits);
      require_flat("cross_entropy", "losses", losses, X.count());
      require_flat("cross_entropy", "targets", targets, X.count());
      const int32_t* target = checked_indices<int32_t>("cross_entropy", "targets", targets, -1, X.width());
      A* loss = losses.data<A>();
      if (!dlogits.defined()) return losses_alone(X, target, loss);
      require_shape("cross_entropy", "dlogits", dlogits, logits.shape());
      const auto compute = [&]<class D>() { rows<L, D>(X, dlogits, target, loss, static_cast<A>(scale)); };
      if constexpr (std::is_same_v<L, bf16>)
        with_dtype<bf16>("cross_entropy", dlogits.dtype(), compute);
      else
        with_dtype<float, bf16, double>("cross_entropy", dlogits.dtype(), compute);
    });
  });
}

// Returns the number of rows of a block. It is small, so that the logits of a block are still in the last-level cache
// when the gradients are computed.
int64_t block_rows(int64_t, int64_t) { return base::block_sizes().logit_rows; }

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const CrossEntropyKernels CrossEntropyKernels::of_cpu{.forward = cpu::forward, .block_rows = cpu::block_rows};

}  // namespace hexad::kernels
