#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

/// Scope of each token.
class Scopes {
 public:
  explicit Scopes(const Tensor& segment) : defined_(segment.defined()), segment_(defined_ ? load(segment) : Array{}) {}
  int64_t operator[](int64_t token) const { return defined_ ? index_at(segment_, token) : 0; }

 private:
  bool defined_;
  Array segment_;
};

void count(Stream& stream, const Tensor& counts, const Tensor& totals, const Tensor& ids, const Tensor& segment) {
  stream.run([=] {
    const Array Ids = load(ids);
    const Scopes scope(segment);
    Array Counts = counts.defined() ? zeros(counts) : Array{}, Totals = totals.defined() ? load(totals) : Array{};
    for (int64_t t = 0; t < Ids.rows; ++t)
      for (int64_t k = 0; k < Ids.columns; ++k) {
        if (scope[t] < 0 || Ids(t, k) < 0) continue;
        const int64_t id = index_at(Ids, t * Ids.columns + k);
        if (counts.defined()) ++Counts(scope[t], id);
        if (totals.defined()) ++Totals[id];
      }
    if (counts.defined()) store(counts, Counts);
    if (totals.defined()) store(totals, Totals);
  });
}

void fractions(Stream& stream, const Tensor& fractions, const Tensor& counts) {
  stream.run([=] {
    Array F = load(counts);
    for (int64_t s = 0; s < F.rows; ++s) {
      double total = 0;
      for (int64_t e = 0; e < F.columns; ++e) total += F(s, e);
      for (int64_t e = 0; e < F.columns; ++e)
        F(s, e) = total > 0 ? F(s, e) / total : 1 / static_cast<double>(F.columns);
    }
    store(fractions, F);
  });
}

/// Sum of a token's scores (`total`), and mean of the fractions weighted by these scores. If `total` is zero, the token
/// contributes nothing to the loss.
struct Token {
  double total = 0, mean = 0;
  Token(const Array& S, int64_t t, const Array& F, int64_t scope) {
    for (int64_t e = 0; e < S.columns; ++e) total += S(t, e);
    for (int64_t e = 0; total != 0 && e < S.columns; ++e) mean += S(t, e) / total * F(scope, e);
  }
};

/// Coefficient of each scope.
class Coefficients {
 public:
  Coefficients(const Tensor& coefficients, const LossFactors& factors)
      : defined_(coefficients.defined()),
        coefficients_(defined_ ? load(coefficients) : Array{}),
        scale_(factors.scale) {}
  double operator[](int64_t scope) const { return defined_ ? scale_ * coefficients_[scope] : scale_; }

 private:
  bool defined_;
  Array coefficients_;
  double scale_;
};

void store_loss(const RouterLoss& out, double loss, const LossFactors& factors) {
  Array W = zeros(out.weighted);
  W[0] = factors.weight * factors.share * loss;
  store(out.weighted, W);
  if (!out.total.defined()) return;
  Array T = load(out.total);
  T[0] += factors.share * loss;
  store(out.total, T);
}

void balance(Stream& stream, const RouterLoss& out, const Tensor& scores, const Tensor& segment,
             const Tensor& fractions, const Tensor& coefficients, const LossFactors& factors) {
  stream.run([=] {
    const Array S = load(scores), F = load(fractions);
    const Coefficients C(coefficients, factors);
    const Scopes scope(segment);
    double loss = 0;
    for (int64_t t = 0; t < S.rows; ++t)
      if (scope[t] >= 0) loss += C[scope[t]] * Token(S, t, F, scope[t]).mean;
    store_loss(out, loss, factors);
  });
}

// The derivative of the mean with respect to a score is (fraction - mean) / total.
void balance_backward(Stream& stream, const Tensor& dscores, const Tensor& dweighted, const Tensor& scores,
                      const Tensor& segment, const Tensor& fractions, const Tensor& coefficients,
                      const LossFactors& factors) {
  stream.run([=] {
    const Array S = load(scores), F = load(fractions), DW = load(dweighted);
    const Coefficients C(coefficients, factors);
    const Scopes scope(segment);
    Array DS = zeros(dscores);
    for (int64_t t = 0; t < S.rows; ++t) {
      if (scope[t] < 0) continue;
      const Token token(S, t, F, scope[t]);
      for (int64_t e = 0; token.total != 0 && e < S.columns; ++e)
        DS(t, e) = factors.weight * DW[0] * C[scope[t]] * (F(scope[t], e) - token.mean) / token.total;
    }
    store(dscores, DS);
  });
}

void z(Stream& stream, const RouterLoss& out, const Tensor& log_sum_exp, const Tensor& logits, const Tensor& segment,
       const LossFactors& factors) {
  stream.run([=] {
    const Array X = load(logits);
    const Scopes scope(segment);
    Array Z = zeros(log_sum_exp);
    double loss = 0;
    for (int64_t t = 0; t < X.rows; ++t) {
      if (scope[t] < 0) continue;
      double largest = X(t, 0), sum = 0;
      for (int64_t e = 0; e < X.columns; ++e) largest = std::max(largest, X(t, e));
      for (int64_t e = 0; e < X.columns; ++e) sum += std::exp(X(t, e) - largest);
      Z[t] = largest + std::log(sum);
      loss += factors.scale * Z[t] * Z[t];
    }
    store_loss(out, loss, factors);
    store(log_sum_exp, Z);
  });
}

// The derivative of z^2 with respect to a logit is 2 z softmax.
void z_backward(Stream& stream, const Tensor& dlogits, const Tensor& dweighted, const Tensor& logits,
                const Tensor& log_sum_exp, const Tensor& segment, const LossFactors& factors) {
  stream.run([=] {
    const Array X = load(logits), Z = load(log_sum_exp), DW = load(dweighted);
    const Scopes scope(segment);
    Array DX = zeros(dlogits);
    for (int64_t t = 0; t < X.rows; ++t)
      for (int64_t e = 0; scope[t] >= 0 && e < X.columns; ++e)
        DX(t, e) = 2 * factors.scale * factors.weight * DW[0] * Z[t] * std::exp(X(t, e) - Z[t]);
    store(dlogits, DX);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const RouterLossKernels RouterLossKernels::of_reference{.count = reference::count,
                                                        .fractions = reference::fractions,
                                                        .balance = reference::balance,
                                                        .balance_backward = reference::balance_backward,
                                                        .z = reference::z,
                                                        .z_backward = reference::z_backward};

}  // namespace hexad::kernels
