// Router losses. Plain loops in double suffice, because [T, E] is small compared with the operands of products. All
// threads compute addends, and one thread sums them in the order of the tokens.
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

/// Scopes of tokens [0, tokens). If `segment` is undefined, all tokens are in scope 0.
class Scopes {
 public:
  Scopes(std::string_view op, const Tensor& segment, int64_t tokens, int64_t scopes) {
    if (!segment.defined()) return;
    require_flat(op, "segment", segment, tokens);
    scope_ = checked_indices<int32_t>(op, "segment", segment, -1, scopes);
  }
  int64_t operator[](int64_t token) const { return scope_ ? scope_[token] : 0; }

 private:
  const int32_t* scope_ = nullptr;
};

/// Returns the sum of f(token) over [0, tokens), added in order.
template <class F>
double sum_over_tokens(int64_t tokens, int64_t experts, const F& f) {
  std::vector<double> addends(tokens);
  parallel_for(tokens, row_grain(4 * experts), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) addends[t] = f(t);
  });
  return std::accumulate(addends.begin(), addends.end(), 0.0);
}

// Number of scopes for kernels that only test whether a token has a scope.
constexpr int64_t any = std::numeric_limits<int32_t>::max();

void count(Stream& stream, const Tensor& counts, const Tensor& totals, const Tensor& ids, const Tensor& segment) {
  stream.run([=] {
    const int64_t experts = counts.defined() ? counts.dim(1) : totals.numel(), slots = ids.dim(1);
    const int32_t* id = checked_indices<int32_t>("count", "ids", ids, -1, experts);
    const Scopes scope("count", segment, ids.dim(0), counts.defined() ? counts.dim(0) : any);
    int64_t *by_scope = nullptr, *total = nullptr;
    if (counts.defined()) {
      require_flat("count", "counts", counts, counts.dim(0) * experts);
      by_scope = counts.data<int64_t>();
      std::fill_n(by_scope, counts.numel(), 0);
    }
    if (totals.defined()) {
      require_flat("count", "totals", totals, experts);
      total = totals.data<int64_t>();
    }
    for (int64_t i = 0; i < ids.numel(); ++i) {
      if (id[i] < 0 || scope[i / slots] < 0) continue;
      if (by_scope) ++by_scope[scope[i / slots] * experts + id[i]];
      if (total) ++total[id[i]];
    }
  });
}

void fractions(Stream& stream, const Tensor& fractions, const Tensor& counts) {
  stream.run([=] {
    const int64_t scopes = counts.dim(0), experts = counts.dim(1);
    require_flat("fractions", "counts", counts, scopes * experts);
    require_flat("fractions", "fractions", fractions, scopes * experts);
    with_dtype<float, double>("fractions", fractions.dtype(), [&]<class A>() {
      with_dtype<int64_t, float, double>("fractions", counts.dtype(), [&]<class C>() {
        A* f = fractions.data<A>();
        const C* c = counts.data<C>();
        for (int64_t s = 0; s < scopes; ++s, f += experts, c += experts) {
          const double total = std::accumulate(c, c + experts, 0.0);
          for (int64_t e = 0; e < experts; ++e)
            f[e] = static_cast<A>(total > 0 ? static_cast<double>(c[e]) / total : 1.0 / static_cast<double>(experts));
        }
      });
    });
  });
}

/// Operands of `balance` and of its gradient, checked.
template <class A>
struct Balance {
  int64_t tokens, experts;
  const A *scores, *fractions;
  const double* coefficients = nullptr;
  double scale;
  Scopes scope;

  Balance(const Tensor& s, const Tensor& segment, const Tensor& f, const Tensor& c, const LossFactors& factors)
      : tokens(s.dim(0)), experts(s.dim(1)), scale(factors.scale), scope("balance", segment, tokens, f.dim(0)) {
    require_flat("balance", "scores", s, tokens * experts);
    require_flat("balance", "fractions", f, f.dim(0) * experts);
    scores = s.data<A>(), fractions = f.data<A>();
    if (!c.defined()) return;
    require_flat("balance", "coefficients", c, f.dim(0));
    coefficients = c.data<double>();
  }

  double coefficient(int64_t t) const { return coefficients ? scale * coefficients[scope[t]] : scale; }

  /// Sums over all experts for one token: the sum of its scores, and the sum of its scores times the fractions of its
  /// scope.
  struct Sums {
    double total, weighted;
  };
  Sums sums(int64_t t) const {
    const A *p = scores + t * experts, *f = fractions + scope[t] * experts;
    Sums s{0, 0};
    for (int64_t e = 0; e < experts; ++e) {
      s.total += static_cast<double>(p[e]);
      s.weighted += static_cast<double>(p[e]) * static_cast<double>(f[e]);
    }
    return s;
  }
};

template <class A>
void store_loss(const RouterLoss& out, A loss, const LossFactors& factors) {
  require_flat("router loss", "weighted", out.weighted, 1);
  const A value = loss * static_cast<A>(factors.share);
  *out.weighted.data<A>() = value * static_cast<A>(factors.weight);
  if (!out.total.defined()) return;
  require_flat("router loss", "total", out.total, 1);
  *out.total.data<double>() += static_cast<double>(value);
}

/// Returns dweighted * weight, rounded to A: the gradient of the loss without `share` (see RouterLossKernels).
template <class A>
double loss_gradient(const Tensor& dweighted, const LossFactors& factors) {
  require_flat("router loss", "dweighted", dweighted, 1);
  const A gradient = *dweighted.data<A>() * static_cast<A>(factors.weight);
  return static_cast<double>(gradient);
}

void balance(Stream& stream, const RouterLoss& out, const Tensor& scores, const Tensor& segment,
             const Tensor& fractions, const Tensor& coefficients, const LossFactors& factors) {
  stream.run([=] {
    with_dtype<float, double>("balance", scores.dtype(), [&]<class A>() {
      const Balance<A> b(scores, segment, fractions, coefficients, factors);
      const double loss = sum_over_tokens(b.tokens, b.experts, [&](int64_t t) {
        if (b.scope[t] < 0) return 0.0;
        const auto [total, weighted] = b.sums(t);
        return total != 0 ? b.coefficient(t) * weighted / total : 0.0;
      });
      store_loss(out, static_cast<A>(loss), factors);
    });
  });
}

void balance_backward(Stream& stream, const Tensor& dscores, const Tensor& dweighted, const Tensor& scores,
                      const Tensor& segment, const Tensor& fractions, const Tensor& coefficients,
                      const LossFactors& factors) {
  stream.run([=] {
    require_flat("balance", "dscores", dscores, scores.numel());
    with_dtype<float, double>("balance", scores.dtype(), [&]<class A>() {
      const Balance<A> b(scores, segment, fractions, coefficients, factors);
      const double gradient = loss_gradient<A>(dweighted, factors);
      parallel_for(b.tokens, row_grain(4 * b.experts), [&, d = dscores.data<A>()](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          A* row = d + t * b.experts;
          const auto [total, weighted] = b.scope[t] < 0 ? typename Balance<A>::Sums{0, 0} : b.sums(t);
          if (total == 0) {
            std::fill_n(row, b.experts, A(0));
            continue;
          }
          const A* f = b.fractions + b.scope[t] * b.experts;
          const double c = b.coefficient(t) * gradient / total;
          for (int64_t e = 0; e < b.experts; ++e)
            row[e] = static_cast<A>(c * (static_cast<double>(f[e]) - weighted / total));
        }
      });
    });
  });
}

void z(Stream& stream, const RouterLoss& out, const Tensor& log_sum_exp, const Tensor& logits, const Tensor& segment,
       const LossFactors& factors) {
  stream.run([=] {
    const int64_t tokens = logits.dim(0), experts = logits.dim(1);
    require_flat("z", "log_sum_exp", log_sum_exp, tokens);
    require_flat("z", "logits", logits, tokens * experts);
    const Scopes scope("z", segment, tokens, any);
    with_dtype<float, double>("z", logits.dtype(), [&]<class A>() {
      A* kept = log_sum_exp.data<A>();
      const A* x = logits.data<A>();
      const double sum = sum_over_tokens(tokens, experts, [&](int64_t t) {
        kept[t] = A(0);
        if (scope[t] < 0) return 0.0;
        const A* row = x + t * experts;
        const double top = static_cast<double>(*std::max_element(row, row + experts));
        double total = 0;
        for (int64_t e = 0; e < experts; ++e) total += std::exp(static_cast<double>(row[e]) - top);
        const double value = top + std::log(total);
        kept[t] = static_cast<A>(value);
        return value * value;
      });
      store_loss(out, static_cast<A>(factors.scale * sum), factors);
    });
  });
}

void z_backward(Stream& stream, const Tensor& dlogits, const Tensor& dweighted, const Tensor& logits,
                const Tensor& log_sum_exp, const Tensor& segment, const LossFactors& factors) {
  stream.run([=] {
    const int64_t tokens = logits.dim(0), experts = logits.dim(1);
    require_flat("z", "dlogits", dlogits, tokens * experts);
    require_flat("z", "logits", logits, tokens * experts);
    require_flat("z", "log_sum_exp", log_sum_exp, tokens);
    const Scopes scope("z", segment, tokens, any);
    with_dtype<float, double>("z", logits.dtype(), [&]<class A>() {
      const double gradient = loss_gradient<A>(dweighted, factors);
      parallel_for(
          tokens, row_grain(4 * experts),
          [&, d = dlogits.data<A>(), x = logits.data<A>(), kept = log_sum_exp.data<A>()](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
              if (scope[t] < 0) {
                std::fill_n(d + t * experts, experts, A(0));
                continue;
              }
              const double value = static_cast<double>(kept[t]), c = 2 * value * gradient * factors.scale;
              for (int64_t e = t * experts; e < (t + 1) * experts; ++e)
                d[e] = static_cast<A>(c * std::exp(static_cast<double>(x[e]) - value));
            }
          });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const RouterLossKernels RouterLossKernels::of_cpu{.count = cpu::count,
                                                  .fractions = cpu::fractions,
                                                  .balance = cpu::balance,
                                                  .balance_backward = cpu::balance_backward,
                                                  .z = cpu::z,
                                                  .z_backward = cpu::z_backward};

}  // namespace hexad::kernels
