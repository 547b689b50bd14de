// Both losses touch [T, E] once, which is little beside the products: plain loops on the host.
#include <algorithm>
#include <cmath>

#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {
namespace {

template <class T>
double scalar(const Tensor& t) {
  return static_cast<double>(*t.data<T>());
}

int64_t count_valid(const Tensor& segment) {
  const int32_t* s = segment.data<int32_t>();
  return std::count_if(s, s + segment.numel(), [](int32_t x) { return x >= 0; });
}

}  // namespace

Value load_balancing_loss(Tape& tape, const Value& scores, const Tensor& segment, const Tensor& fractions,
                          const std::vector<int64_t>& tokens_in_scope) {
  const int64_t tokens = scores.data.dim(0), experts = scores.data.dim(1), scopes = fractions.dim(0);
  require(segment.dim(0) == tokens && fractions.dim(1) == experts, "[load_balancing_loss] scores ", scores.shape(),
          ", segment ", segment.shape(), ", fractions ", fractions.shape());
  Tensor out = Tensor::zeros({1}, scores.data.dtype(), scores.device());
  // coefficient[s] = E / (scopes tokens_in_scope): turns sums over tokens into means over tokens and scopes.
  std::vector<double> coefficient(static_cast<size_t>(scopes), 0.0);
  const int32_t* seg = segment.data<int32_t>();
  for (int64_t t = 0; t < tokens; ++t) {
    if (seg[t] < 0) continue;
    require(seg[t] < scopes, "[load_balancing_loss] token ", t, " is of scope ", seg[t], " of ", scopes);
    coefficient[static_cast<size_t>(seg[t])] += 1;
  }
  if (!tokens_in_scope.empty()) {
    require(tokens_in_scope.size() == coefficient.size(), "[load_balancing_loss] counts of ", tokens_in_scope.size(),
            " scopes of ", scopes);
    coefficient.assign(tokens_in_scope.begin(), tokens_in_scope.end());
  }
  for (double& c : coefficient) c = c > 0 ? static_cast<double>(experts) / (static_cast<double>(scopes) * c) : 0;

  with_dtype<float, double>("load_balancing_loss", scores.data.dtype(), [&]<class T>() {
    const T *p = scores.data.data<T>(), *f = fractions.data<T>();
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      if (seg[t] < 0) continue;
      double total = 0, weighted = 0;
      for (int64_t e = 0; e < experts; ++e) {
        total += static_cast<double>(p[t * experts + e]);
        weighted += static_cast<double>(p[t * experts + e]) * static_cast<double>(f[seg[t] * experts + e]);
      }
      if (total != 0) sum += coefficient[static_cast<size_t>(seg[t])] * weighted / total;
    }
    *out.data<T>() = static_cast<T>(sum);
  });
  return tape.record(
      "load_balancing_loss", out, {scores}, save(scores.data),
      [segment, fractions, coefficient, tokens, experts](Backward& b, const Tensor& dout, const Saved& s) {
        auto [saved] = s.get<1>();
        Tensor dscores = Tensor::zeros(saved.shape(), saved.dtype(), saved.device());
        with_dtype<float, double>("load_balancing_loss", saved.dtype(), [&]<class T>() {
          const T *p = saved.data<T>(), *f = fractions.data<T>();
          T* d = dscores.data<T>();
          const int32_t* ids = segment.data<int32_t>();
          for (int64_t t = 0; t < tokens; ++t) {
            if (ids[t] < 0) continue;
            const T *row = p + t * experts, *fraction = f + ids[t] * experts;
            double total = 0, weighted = 0;
            for (int64_t e = 0; e < experts; ++e) {
              total += static_cast<double>(row[e]);
              weighted += static_cast<double>(row[e]) * static_cast<double>(fraction[e]);
            }
            if (total == 0) continue;
            const double c = coefficient[static_cast<size_t>(ids[t])] * scalar<T>(dout) / total;
            for (int64_t e = 0; e < experts; ++e)
              d[t * experts + e] = static_cast<T>(c * (static_cast<double>(fraction[e]) - weighted / total));
          }
        });
        b.accumulate(0, dscores);
      });
}

Value router_z_loss(Tape& tape, const Value& logits, const Tensor& segment, std::optional<int64_t> valid_tokens) {
  const int64_t tokens = logits.data.dim(0), experts = logits.data.dim(1);
  const int64_t valid = valid_tokens ? *valid_tokens : count_valid(segment);
  Tensor out = Tensor::zeros({1}, logits.data.dtype(), logits.device());
  Tensor lse = Tensor::zeros({tokens}, logits.data.dtype(), logits.device());
  const int32_t* seg = segment.data<int32_t>();
  with_dtype<float, double>("router_z_loss", logits.data.dtype(), [&]<class T>() {
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      if (seg[t] < 0) continue;
      const T* row = logits.data.data<T>() + t * experts;
      const double top = static_cast<double>(*std::max_element(row, row + experts));
      double total = 0;
      for (int64_t e = 0; e < experts; ++e) total += std::exp(static_cast<double>(row[e]) - top);
      const double z = top + std::log(total);
      lse.data<T>()[t] = static_cast<T>(z);
      sum += z * z;
    }
    *out.data<T>() = static_cast<T>(valid ? sum / static_cast<double>(valid) : 0.0);
  });
  return tape.record("router_z_loss", out, {logits}, save(logits.data, lse),
                     [segment, tokens, experts, valid](Backward& b, const Tensor& dout, const Saved& s) {
                       auto [l, z] = s.get<2>();
                       Tensor dlogits = Tensor::zeros(l.shape(), l.dtype(), l.device());
                       with_dtype<float, double>("router_z_loss", l.dtype(), [&]<class T>() {
                         const T* row = l.data<T>();
                         T* d = dlogits.data<T>();
                         for (int64_t t = 0; t < tokens; ++t) {
                           if (segment.data<int32_t>()[t] < 0) continue;
                           const double zt = static_cast<double>(z.data<T>()[t]);
                           const double c = 2 * zt * scalar<T>(dout) / static_cast<double>(valid);
                           for (int64_t e = t * experts; e < (t + 1) * experts; ++e)
                             d[e] = static_cast<T>(c * std::exp(static_cast<double>(row[e]) - zt));
                         }
                       });
                       b.accumulate(0, dlogits);
                     });
}

}  // namespace hexad::autograd
