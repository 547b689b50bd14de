// The formulas of the MoE layer, written as loops over tokens in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/moe/moe_lab.h"
#include "tests/support/stack.h"

namespace hexad::tests {

using Row = std::vector<double>;

/// Weights of a parameter, and its product with a vector by nested loops.
struct Weights {
  std::vector<double> values;
  int64_t rows, columns;
  Row times(const Row& x, int64_t expert = 0) const {
    Row y(rows, 0.0);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) y[r] += values[(expert * rows + r) * columns + c] * x[c];
    return y;
  }
};

/// MoE layer of a lab, written as loops over tokens in double.
class Naive {
 public:
  explicit Naive(MoeLab& lab) : lab_(lab), c_(lab.config.moe) {}

  // Computes the MLP whose parameter names begin with `prefix`. Computes expert `expert` if the parameters stack
  // several experts.
  Row mlp(const std::string& prefix, const Row& x, int64_t expert) const {
    Row activations = affine(prefix + ".up", x, expert);
    const bool gated = c_.expert == moe::ExpertKind::swiglu;
    const Row gate = gated ? affine(prefix + ".gate", x, expert) : activations;
    for (size_t i = 0; i < activations.size(); ++i)
      activations[i] = gated ? activations[i] * gate[i] / (1 + std::exp(-gate[i]))
                             : activations[i] / 2 * (1 + std::erf(activations[i] / std::sqrt(2.0)));
    return affine(prefix + ".down", activations, expert);
  }

  std::vector<double> output(const std::vector<Row>& x, const MicroBatch& batch, int64_t valid) {
    const auto tokens = static_cast<int64_t>(x.size());
    std::vector<Row> scores;
    std::vector<std::vector<int64_t>> chosen;
    for (const Row& row : x) {
      scores.push_back(score(weights("router").times(row)));
      chosen.push_back(top_k(scores.back()));
    }
    const bool experts_choose = c_.experts_choose();
    if (experts_choose) chosen = chosen_by_experts(scores, batch, valid);
    std::vector<double> y;
    for (int64_t t = 0; t < tokens; ++t) {
      Row sum(lab_.config.hidden, 0.0);
      const size_t ti = t;
      double total = 0;
      for (int64_t e : chosen[ti]) total += scores[ti][e];
      for (int64_t e : chosen[ti]) {
        if (t >= valid || (!experts_choose && !kept(t, e, scores, chosen, batch, valid))) continue;
        const bool normalizes = c_.normalize && !experts_choose;
        const double w = c_.scale * scores[ti][e] / (normalizes ? std::max(total, c_.normalize_floor) : 1.0);
        const bool weighs_input = c_.weigh == moe::Weighing::input;
        Row in = x[ti];
        for (double& v : in) v *= weighs_input ? w : 1;
        const Row out = mlp("experts", in, e);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += (weighs_input ? 1 : w) * out[i];
      }
      if (c_.shared_experts > 0) {
        const Row out = mlp("shared", x[ti], 0);
        const double gate = c_.shared_gate ? 1 / (1 + std::exp(-weights("shared_gate").times(x[ti])[0])) : 1;
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += gate * out[i];
      }
      y.insert(y.end(), sum.begin(), sum.end());
    }
    return y;
  }

 private:
  // Returns a parameter, or a part of a stacked parameter.
  Tensor tensor(const std::string& name) const {
    for (const auto& p : lab_.parameters) {
      const autograd::Stack& stack = p->spec().stack;
      const auto at = std::find(stack.names.begin(), stack.names.end(), "moe." + name);
      if (at != stack.names.end()) return entry_of(p->local(), stack.dim, at - stack.names.begin());
    }
    return lab_.parameter(name).local();
  }
  Weights weights(const std::string& name) const {
    const Tensor w = tensor(name + ".weight");
    return {values_of(w), w.dim(-2), w.dim(-1)};
  }
  Row affine(const std::string& name, const Row& x, int64_t expert) const {
    Row y = weights(name).times(x, expert);
    if (!lab_.config.bias) return y;
    const auto bias = values_of(tensor(name + ".bias"));
    for (size_t i = 0; i < y.size(); ++i) y[i] += bias[expert * y.size() + i];
    return y;
  }
  Row score(Row logits) const {
    for (double& l : logits) l = c_.score == kernels::RouterScore::softmax ? std::exp(l) : 1 / (1 + std::exp(-l));
    if (c_.score == kernels::RouterScore::sigmoid) return logits;
    const double sum = std::accumulate(logits.begin(), logits.end(), 0.0);
    for (double& l : logits) l /= sum;
    return logits;
  }
  std::vector<int64_t> top_k(const Row& s) const {
    std::vector<int64_t> order(s.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return s[a] > s[b]; });
    order.resize(c_.top_k);
    return order;
  }
  int64_t scope_tokens(const MicroBatch& batch) const {
    return c_.capacity_scope == moe::CapacityScope::sequence ? batch.length : batch.tokens();
  }
  // Returns, for each token, the experts that the token keeps among the experts that choose it (Zhou et al. 2022).
  std::vector<std::vector<int64_t>> chosen_by_experts(const std::vector<Row>& scores, const MicroBatch& batch,
                                                      int64_t valid) const {
    std::vector<std::vector<int64_t>> chosen(scores.size());
    for (int64_t begin = 0; begin < valid; begin += scope_tokens(batch)) {
      std::vector<int64_t> tokens(std::min(scope_tokens(batch), valid - begin));
      const double mean = static_cast<double>(std::ssize(tokens) * c_.top_k) / static_cast<double>(c_.experts);
      const auto most = static_cast<int64_t>(std::ceil(*c_.capacity_factor * mean));
      for (int64_t e = 0; e < c_.experts; ++e) {
        std::iota(tokens.begin(), tokens.end(), begin);
        std::stable_sort(tokens.begin(), tokens.end(),
                         [&](int64_t a, int64_t b) { return scores[a][e] > scores[b][e]; });
        for (int64_t i = 0; i < most; ++i) chosen[tokens[i]].push_back(e);
      }
    }
    for (size_t t = 0; t < chosen.size(); ++t) {
      std::stable_sort(chosen[t].begin(), chosen[t].end(),
                       [&](int64_t a, int64_t b) { return scores[t][a] > scores[t][b]; });
      chosen[t].resize(std::min<size_t>(chosen[t].size(), c_.top_k));
    }
    return chosen;
  }
  // True if expert e keeps token t. The tokens of the scope that chose e are in the order of the drop rule (probability
  // or position). Expert e keeps the first of these tokens, up to its capacity.
  bool kept(int64_t t, int64_t e, const std::vector<Row>& scores, const std::vector<std::vector<int64_t>>& chosen,
            const MicroBatch& batch, int64_t valid) const {
    if (!c_.capacity_factor) return true;
    const int64_t scope = scope_tokens(batch);
    const int64_t begin = t / scope * scope, end = std::min(begin + scope, valid);
    const double mean = static_cast<double>((end - begin) * c_.top_k) / static_cast<double>(c_.experts);
    const auto at = [&](int64_t u) { return scores[u][e]; };
    double before = 0;
    for (int64_t u = begin; u < end; ++u) {
      const auto& others = chosen[u];
      if (u == t || std::find(others.begin(), others.end(), e) == others.end()) continue;
      const bool goes_first =
          c_.drop == kernels::DropRule::position ? u < t : at(u) > at(t) || (at(u) == at(t) && u < t);
      before += goes_first;
    }
    return before < std::ceil(*c_.capacity_factor * mean);
  }

  MoeLab& lab_;
  const moe::MoeConfig& c_;
};

/// Returns the rows of x [T, D].
inline std::vector<Row> rows_of(const Tensor& x) {
  std::vector<Row> rows;
  const auto values = values_of(x);
  for (int64_t t = 0; t < x.dim(0); ++t)
    rows.emplace_back(values.begin() + t * x.dim(1), values.begin() + (t + 1) * x.dim(1));
  return rows;
}

/// Returns the output of the layer for x [T, D], without recording.
inline Tensor forward(MoeLab& lab, const Tensor& x, const MicroBatch& batch) {
  const auto policy = autograd::keep_policy();
  autograd::Tape tape(lab.stream(), *policy, autograd::Tape::Mode::forget);
  return lab.layer(tape, {x}, {.batch = batch, .statistics = &lab.statistics.layers}).y.data;
}

}  // namespace hexad::tests
