#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

// Returns the probabilities of all experts of token t for slot k. Only the slot's expert and the near candidates have
// nonzero probabilities.
std::vector<double> probabilities(const Array& L, const Array& Ids, int64_t t, int64_t k, double tolerance) {
  std::vector<bool> candidate(L.columns, true);
  for (int64_t i = 0; i < k; ++i) candidate[index_at(Ids, t * Ids.columns + i)] = false;
  double best = -std::numeric_limits<double>::infinity();
  for (int64_t e = 0; e < L.columns; ++e)
    if (candidate[e]) best = std::max(best, L(t, e));
  std::vector<double> p(L.columns);
  double sum = 0;
  for (int64_t e = 0; e < L.columns; ++e) {
    const bool far = best - L(t, e) > tolerance * std::max(std::abs(L(t, e)), best);
    const bool own = e == index_at(Ids, t * Ids.columns + k);
    if (own || (candidate[e] && !far)) sum += p[e] = std::exp(L(t, e) - best);
  }
  for (double& x : p) x /= sum;
  return p;
}

void forward(Stream& stream, const Tensor& weights, const Tensor& logits, const Tensor& ids, double tolerance) {
  stream.run([=] {
    const Array L = load(logits), Ids = load(ids);
    Array W = zeros(weights);
    for (int64_t t = 0; t < W.rows; ++t)
      for (int64_t k = 0; k < W.columns; ++k)
        W(t, k) = probabilities(L, Ids, t, k, tolerance)[index_at(Ids, t * W.columns + k)];
    store(weights, W);
  });
}

void backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights, const Tensor& logits, const Tensor& ids,
              double tolerance) {
  stream.run([=] {
    const Array L = load(logits), Ids = load(ids), DW = load(dweights);
    Array DL = zeros(dlogits);
    for (int64_t t = 0; t < DW.rows; ++t)
      for (int64_t k = 0; k < DW.columns; ++k) {
        const std::vector<double> p = probabilities(L, Ids, t, k, tolerance);
        const int64_t own = index_at(Ids, t * DW.columns + k);
        for (int64_t e = 0; e < L.columns; ++e) DL(t, e) += DW(t, k) * p[own] * ((e == own ? 1 : 0) - p[e]);
      }
    store(dlogits, DL);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const SparseMixerKernels SparseMixerKernels::of_reference{.forward = reference::forward,
                                                          .backward = reference::backward};

}  // namespace hexad::kernels
