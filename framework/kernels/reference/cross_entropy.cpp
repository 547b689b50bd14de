#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void forward(Stream& stream, const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& targets,
             double scale) {
  stream.run([=] {
    const Array X = load(logits), Target = load(targets);
    Array L = zeros(losses), DX = zeros(logits);
    for (int64_t t = 0; t < X.rows; ++t) {
      const int64_t target = index_at(Target, t);
      if (target < 0) continue;
      double largest = X(t, 0), sum = 0;
      for (int64_t v = 0; v < X.columns; ++v) largest = std::max(largest, X(t, v));
      for (int64_t v = 0; v < X.columns; ++v) sum += std::exp(X(t, v) - largest);
      L[t] = largest + std::log(sum) - X(t, target);
      for (int64_t v = 0; scale != 0 && v < X.columns; ++v)
        DX(t, v) = scale * (std::exp(X(t, v) - largest) / sum - (v == target ? 1 : 0));
    }
    store(losses, L);
    if (dlogits.defined()) store(dlogits, DX);
  });
}

int64_t block_rows(int64_t, int64_t) { return 1; }

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const CrossEntropyKernels CrossEntropyKernels::of_reference{.forward = reference::forward,
                                                            .block_rows = reference::block_rows};

}  // namespace hexad::kernels
