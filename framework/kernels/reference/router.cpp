#include <algorithm>
#include <limits>
#include <numeric>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/operand_checks.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {

using namespace base;
namespace {

constexpr double tiny = 1e-20;  // prevents 0/0 if the scores of all chosen experts are zero (as in DeepSeek-V3)

void score(double* row, int64_t experts, RouterScore kind) {
  if (kind == RouterScore::sigmoid) {
    for (int64_t e = 0; e < experts; ++e) row[e] = 1 / (1 + std::exp(-row[e]));
    return;
  }
  const double largest = *std::max_element(row, row + experts);
  double sum = 0;
  for (int64_t e = 0; e < experts; ++e) sum += row[e] = std::exp(row[e] - largest);
  for (int64_t e = 0; e < experts; ++e) row[e] /= sum;
}

// Returns the indices sorted by descending value. Equal values are sorted by index; NaN comes last.
std::vector<int64_t> ranking(const std::vector<double>& values) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  auto at = [&](int64_t i) { return values[i]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return at(a) > at(b) || (std::isnan(at(b)) && !std::isnan(at(a))); });
  return order;
}

// Returns the chosen experts of one token, sorted by descending selection score.
std::vector<int64_t> choose(const std::vector<double>& selection, const RouterRule& rule) {
  const int64_t size = static_cast<int64_t>(selection.size()) / rule.groups;
  std::vector<double> group_scores;
  for (int64_t g = 0; g < rule.groups; ++g) {
    std::vector<double> members(selection.begin() + g * size, selection.begin() + (g + 1) * size);
    for (double& s : members)
      if (std::isnan(s)) s = -std::numeric_limits<double>::infinity();
    std::sort(members.rbegin(), members.rend());
    const bool two = size > 1 && rule.group_score == RouterGroupScore::best_two;
    group_scores.push_back(two ? members[0] + members[1] : members[0]);
  }
  std::vector<bool> open(rule.groups);
  const auto best = ranking(group_scores);
  for (int64_t i = 0; i < rule.top_groups; ++i) open[best[i]] = true;
  std::vector<int64_t> chosen;
  for (int64_t e : ranking(selection))
    if (open[e / size] && static_cast<int64_t>(chosen.size()) < rule.top_k) chosen.push_back(e);
  return chosen;
}

// Computes weights[k] = scale * the score of expert ids[k]. If the rule normalises, divides each weight by the sum of
// the chosen scores, or by the floor if the sum is smaller.
void weigh_rows(Array& W, const Array& Ids, const Array& S, const RouterRule& rule) {
  for (int64_t t = 0; t < W.rows; ++t) {
    double sum = 0;
    for (int64_t k = 0; k < W.columns; ++k) sum += W(t, k) = S(t, index_at(Ids, t * W.columns + k));
    for (int64_t k = 0; k < W.columns; ++k)
      W(t, k) *= rule.scale / (rule.normalize ? std::max(sum + tiny, rule.normalize_floor) : 1);
  }
}

void forward(Stream& stream, const Tensor& scores, const Tensor& ids, const Tensor& weights, const Tensor& logits,
             const Tensor& bias, const RouterRule& rule) {
  check_rule(rule, logits.dim(1));
  stream.run([=] {
    Array S = load(logits), Ids = zeros(ids), W = zeros(weights);
    const Array B = bias.defined() ? load(bias) : Array{1, S.columns, std::vector<double>(S.columns)};
    for (int64_t t = 0; t < S.rows; ++t) {
      score(&S(t, 0), S.columns, rule.score);
      std::vector<double> selection;
      for (int64_t e = 0; e < S.columns; ++e) selection.push_back(S(t, e) + B[e]);
      const auto chosen = choose(selection, rule);
      for (int64_t k = 0; k < rule.top_k; ++k) Ids(t, k) = static_cast<double>(chosen[k]);
    }
    weigh_rows(W, Ids, S, rule);
    store(scores, S);
    store(ids, Ids);
    store(weights, W);
  });
}

void weigh(Stream& stream, const Tensor& weights, const Tensor& ids, const Tensor& scores, const RouterRule& rule) {
  stream.run([=] {
    Array W = zeros(weights);
    weigh_rows(W, load(ids), load(scores), rule);
    store(weights, W);
  });
}

void backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights, const Tensor& dscores,
              const Tensor& scores, const Tensor& ids, const RouterRule& rule) {
  stream.run([=] {
    const Array S = load(scores), Ids = load(ids), DW = load(dweights);
    Array DS = dscores.defined() ? load(dscores) : zeros(scores), DX = zeros(dlogits);
    for (int64_t t = 0; t < S.rows; ++t) {
      auto id = [&](int64_t k) { return index_at(Ids, t * DW.columns + k); };
      double sum = 0, mean = 0;  // divisor of the weights; mean of dweights, weighted by the chosen scores
      for (int64_t k = 0; k < DW.columns; ++k) sum += S(t, id(k));
      if (!rule.normalize) sum = 1;
      const bool floored = rule.normalize && sum + tiny < rule.normalize_floor;
      if (floored) sum = rule.normalize_floor;
      for (int64_t k = 0; rule.normalize && !floored && k < DW.columns; ++k)
        mean += DW(t, k) * S(t, id(k)) / (sum + tiny);
      for (int64_t k = 0; k < DW.columns; ++k) DS(t, id(k)) += rule.scale * (DW(t, k) - mean) / (sum + tiny);
      double inner = 0;
      for (int64_t e = 0; e < S.columns; ++e) inner += S(t, e) * DS(t, e);
      for (int64_t e = 0; e < S.columns; ++e)
        DX(t, e) = S(t, e) * (rule.score == RouterScore::softmax ? DS(t, e) - inner : (1 - S(t, e)) * DS(t, e));
    }
    store(dlogits, DX);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const RouterKernels RouterKernels::of_reference{
    .forward = reference::forward, .weigh = reference::weigh, .backward = reference::backward};

}  // namespace hexad::kernels
