#include <algorithm>
#include <functional>

#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace kernels;
namespace {

// Returns the number of tokens in each scope. The host reads `segment`, if it is defined.
std::vector<int64_t> count_tokens(const Tensor& segment, int64_t tokens, int64_t scopes) {
  std::vector<int64_t> counts(scopes, 0);
  if (!segment.defined()) {
    counts[0] = tokens;
    return counts;
  }
  const int32_t* s = segment.data<int32_t>();
  for (int64_t t = 0; t < tokens; ++t) {
    require(-1 <= s[t] && s[t] < scopes, "[load_balancing_loss] token ", t, " has scope ", s[t], "; expected 0 to ",
            scopes - 1, ", or -1 if the token is not valid");
    if (s[t] >= 0) ++counts[s[t]];
  }
  return counts;
}

int64_t count_valid(const Tensor& segment, int64_t tokens) {
  if (!segment.defined()) return tokens;
  const int32_t* s = segment.data<int32_t>();
  int64_t valid = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    require(-1 <= s[t], "[router_z_loss] token ", t, " has scope ", s[t],
            "; expected at least 0, or -1 if the token is not valid");
    valid += s[t] >= 0;
  }
  return valid;
}

// Coefficient of each scope: `scale` if all scopes have the same coefficient, otherwise of_scopes[S] in f64
// (kernels::RouterLossKernels::balance).
struct Coefficients {
  double scale = 1;
  Tensor of_scopes{};
};

// Returns E / (S * n) for each of S scopes, where n is the scope's number of tokens; 0 if n is 0. The division by S * n
// converts sums over tokens to means over tokens and scopes.
Coefficients coefficients(const std::vector<int64_t>& tokens_in_scope, int64_t experts, Device device) {
  const auto scopes = static_cast<int64_t>(tokens_in_scope.size());
  std::vector<double> values;
  for (const int64_t n : tokens_in_scope)
    values.push_back(n > 0 ? static_cast<double>(experts) / (static_cast<double>(scopes) * static_cast<double>(n)) : 0);
  if (std::ranges::adjacent_find(values, std::not_equal_to()) == values.end()) return {.scale = values.front()};
  return {.of_scopes = Tensor::from<double>(values, {scopes}, device)};
}

}  // namespace

Value load_balancing_loss(Tape& tape, const Value& scores, const Tensor& segment, const Tensor& fractions,
                          const std::vector<int64_t>& tokens_in_scope, const LossUse& use) {
  const int64_t tokens = scores.data.dim(0), experts = scores.data.dim(1), scopes = fractions.dim(0);
  require((!segment.defined() || segment.shape() == Shape{tokens}) && fractions.dim(1) == experts && scopes > 0,
          "[load_balancing_loss] scores ", scores.shape(), ", segment ", segment.shape(), ", fractions ",
          fractions.shape(), "; expected [T, E], [T] and [S, E] with S > 0");
  const std::vector<int64_t> counts = tokens_in_scope.empty() ? count_tokens(segment, tokens, scopes) : tokens_in_scope;
  require(static_cast<int64_t>(counts.size()) == scopes, "[load_balancing_loss] tokens_in_scope has ", counts.size(),
          " entries; expected ", scopes);
  const auto [scale, of_scopes] = coefficients(counts, experts, scores.device());
  const LossFactors factors{.scale = scale, .share = use.share, .weight = use.weight};
  const auto& k = kernels::kernels(scores.device()).router_loss;
  Tensor out = Tensor::empty({1}, scores.data.dtype(), scores.device());
  k.balance(tape.stream, {out, use.total}, scores.data, segment, fractions, of_scopes, factors);
  return tape.record("load_balancing_loss", out, {scores}, save(scores.data),
                     [&k, segment, fractions, of_scopes, factors](Backward& b, const Tensor& dout, const Saved& s) {
                       auto [saved] = s.get<1>();
                       Tensor dscores = Tensor::like(saved);
                       k.balance_backward(b.stream, dscores, dout, saved, segment, fractions, of_scopes, factors);
                       b.accumulate(0, dscores);
                     });
}

Value router_z_loss(Tape& tape, const Value& logits, const Tensor& segment, std::optional<int64_t> valid_tokens,
                    const LossUse& use) {
  const int64_t tokens = logits.data.dim(0), experts = logits.data.dim(1);
  require((!segment.defined() || segment.shape() == Shape{tokens}) && experts > 0, "[router_z_loss] logits ",
          logits.shape(), ", segment ", segment.shape(), "; expected [T, E] with E > 0, and [T]");
  const int64_t valid = valid_tokens ? *valid_tokens : count_valid(segment, tokens);
  const LossFactors factors{
      .scale = valid > 0 ? 1 / static_cast<double>(valid) : 0, .share = use.share, .weight = use.weight};
  const auto& k = kernels::kernels(logits.device()).router_loss;
  Tensor out = Tensor::empty({1}, logits.data.dtype(), logits.device());
  Tensor lse = Tensor::empty({tokens}, logits.data.dtype(), logits.device());
  k.z(tape.stream, {out, use.total}, lse, logits.data, segment, factors);
  return tape.record("router_z_loss", out, {logits}, save(logits.data, lse),
                     [&k, segment, factors](Backward& b, const Tensor& dout, const Saved& s) {
                       auto [l, z] = s.get<2>();
                       Tensor dlogits = Tensor::like(l);
                       k.z_backward(b.stream, dlogits, dout, l, z, segment, factors);
                       b.accumulate(0, dlogits);
                     });
}

}  // namespace hexad::autograd
