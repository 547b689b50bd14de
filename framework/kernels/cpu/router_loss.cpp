// [T, E] is small compared with the products, so these are plain loops in double. All threads compute addends; one
// thread sums them in the order of the tokens.
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

/// Scope of each token of [0, tokens). All tokens are in scope 0 if `segment` is undefined.
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

/// Returns the sum of f(token) over [0, tokens), in order.
template <class F>
double sum_over_tokens(int64_t tokens, int64_t experts, const F& f) {
  std::vector<double> addends(tokens);
  parallel_for(tokens, row_grain(4 * experts), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) addends[t] = f(t);
  });
  return std::accumulate(addends.begin(), addends.end(), 0.0);
}

void count(Stream& stream, const Tensor& counts, const Tensor& ids, const Tensor& segment, Write write) {
  stream.run([=] {
    const int64_t scopes = counts.dim(0), experts = counts.dim(1), slots = ids.dim(1);
    require_flat("count", "counts", counts, scopes * experts);
    const int32_t* id = checked_indices<int32_t>("count", "ids", ids, -1, experts);
    const Scopes scope("count", segment, ids.dim(0), scopes);
    auto* c = counts.data<int64_t>();
    if (write == Write::replace) std::fill_n(c, counts.numel(), 0);
    for (int64_t i = 0; i < ids.numel(); ++i)
      if (id[i] >= 0 && scope[i / slots] >= 0) ++c[scope[i / slots] * experts + id[i]];
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

/// Checked operands of `balance` and its gradient.
template <class A>
struct Balance {
  int64_t tokens, experts;
  const A *scores, *fractions;
  const double* coefficients;
  Scopes scope;

  Balance(const Tensor& s, const Tensor& segment, const Tensor& f, const Tensor& c)
      : tokens(s.dim(0)), experts(s.dim(1)), scope("balance", segment, tokens, f.dim(0)) {
    require_flat("balance", "scores", s, tokens * experts);
    require_flat("balance", "fractions", f, f.dim(0) * experts);
    require_flat("balance", "coefficients", c, f.dim(0));
    scores = s.data<A>(), fractions = f.data<A>(), coefficients = c.data<double>();
  }

  /// Sums for a token in a scope: of its scores, and of its scores times the scope's fractions.
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

void balance(Stream& stream, const Tensor& loss, const Tensor& scores, const Tensor& segment, const Tensor& fractions,
             const Tensor& coefficients) {
  stream.run([=] {
    require_flat("balance", "loss", loss, 1);
    with_dtype<float, double>("balance", scores.dtype(), [&]<class A>() {
      const Balance<A> b(scores, segment, fractions, coefficients);
      *loss.data<A>() = static_cast<A>(sum_over_tokens(b.tokens, b.experts, [&](int64_t t) {
        if (b.scope[t] < 0) return 0.0;
        const auto [total, weighted] = b.sums(t);
        return total != 0 ? b.coefficients[b.scope[t]] * weighted / total : 0.0;
      }));
    });
  });
}

void balance_backward(Stream& stream, const Tensor& dscores, const Tensor& dloss, const Tensor& scores,
                      const Tensor& segment, const Tensor& fractions, const Tensor& coefficients) {
  stream.run([=] {
    require_flat("balance", "dloss", dloss, 1);
    require_flat("balance", "dscores", dscores, scores.numel());
    with_dtype<float, double>("balance", scores.dtype(), [&]<class A>() {
      const Balance<A> b(scores, segment, fractions, coefficients);
      const double gradient = static_cast<double>(*dloss.data<A>());
      parallel_for(b.tokens, row_grain(4 * b.experts), [&, d = dscores.data<A>()](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          A* row = d + t * b.experts;
          const auto [total, weighted] = b.scope[t] < 0 ? typename Balance<A>::Sums{0, 0} : b.sums(t);
          if (total == 0) {
            std::fill_n(row, b.experts, A(0));
            continue;
          }
          const A* f = b.fractions + b.scope[t] * b.experts;
          const double c = b.coefficients[b.scope[t]] * gradient / total;
          for (int64_t e = 0; e < b.experts; ++e)
            row[e] = static_cast<A>(c * (static_cast<double>(f[e]) - weighted / total));
        }
      });
    });
  });
}

// Any number of scopes is allowed, because only tokens without a scope are treated differently.
constexpr int64_t any = std::numeric_limits<int32_t>::max();

void z(Stream& stream, const Tensor& loss, const Tensor& log_sum_exp, const Tensor& logits, const Tensor& segment,
       double scale) {
  stream.run([=] {
    const int64_t tokens = logits.dim(0), experts = logits.dim(1);
    require_flat("z", "loss", loss, 1);
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
      *loss.data<A>() = static_cast<A>(scale * sum);
    });
  });
}

void z_backward(Stream& stream, const Tensor& dlogits, const Tensor& dloss, const Tensor& logits,
                const Tensor& log_sum_exp, const Tensor& segment, double scale) {
  stream.run([=] {
    const int64_t tokens = logits.dim(0), experts = logits.dim(1);
    require_flat("z", "dloss", dloss, 1);
    require_flat("z", "dlogits", dlogits, tokens * experts);
    require_flat("z", "logits", logits, tokens * experts);
    require_flat("z", "log_sum_exp", log_sum_exp, tokens);
    const Scopes scope("z", segment, tokens, any);
    with_dtype<float, double>("z", logits.dtype(), [&]<class A>() {
      const double gradient = static_cast<double>(*dloss.data<A>());
      parallel_for(
          tokens, row_grain(4 * experts),
          [&, d = dlogits.data<A>(), x = logits.data<A>(), kept = log_sum_exp.data<A>()](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
              if (scope[t] < 0) {
                std::fill_n(d + t * experts, experts, A(0));
                continue;
              }
              const double value = static_cast<double>(kept[t]), c = 2 * value * gradient * scale;
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
