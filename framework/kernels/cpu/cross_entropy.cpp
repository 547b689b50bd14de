#include "framework/kernels/cpu/families.h"
#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/activation_loops.h"

namespace hexad::kernels::cpu {
namespace {

void forward(Stream& stream, const Tensor& losses, const Tensor& logits, const Tensor& targets, double scale) {
  stream.run([=] {
    with_dtype<float, double>("cross_entropy", logits.dtype(), [&]<class A>() {
      const Rows<A> X(logits);
      require_flat("cross_entropy", "losses", losses, X.count());
      require_flat("cross_entropy", "targets", targets, X.count());
      const int32_t* target = checked_indices<int32_t>("cross_entropy", "targets", targets, -1, X.width());
      A* loss = losses.data<A>();
      const auto row = choose<A>(v3::activation_loops, v4::activation_loops).cross_entropy;
      parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const bool ignored = target[t] < 0;
          loss[t] = ignored ? A(0) : row(X[t], X.width(), target[t], static_cast<A>(scale));
          if (ignored && scale != 0) std::fill_n(X[t], X.width(), A(0));
        }
      });
    });
  });
}

}  // namespace

const CrossEntropyKernels cross_entropy{.forward = forward};

}  // namespace hexad::kernels::cpu
