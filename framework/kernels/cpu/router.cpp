#include <limits>
#include <numeric>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/activation_loops.h"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/operand_checks.h"

namespace hexad::kernels::cpu {
namespace {

constexpr double tiny = 1e-20;  // prevents 0/0 if the scores of all chosen experts are zero (as in DeepSeek-V3)

/// The best candidates offered so far, in descending order of their scores. Candidates are offered in ascending order
/// of their index, so the lower index wins a tie. NaN comes last.
template <class A>
class Best {
 public:
  explicit Best(int64_t capacity) : keys_(capacity), ids_(capacity) {}

  void clear() { size_ = 0; }
  void offer(A key, int32_t id) {
    if (size_ == keys_.size() && !before(key, keys_.back())) return;
    size_t at = size_ < keys_.size() ? size_++ : size_ - 1;
    for (; at > 0 && before(key, keys_[at - 1]); --at) keys_[at] = keys_[at - 1], ids_[at] = ids_[at - 1];
    keys_[at] = key;
    ids_[at] = id;
  }
  const std::vector<int32_t>& ids() const { return ids_; }

 private:
  static bool before(A a, A b) { return a > b || (b != b && a == a); }

  std::vector<A> keys_;
  std::vector<int32_t> ids_;
  size_t size_ = 0;
};

/// Chooses the experts of tokens, one token at a time. Owns the necessary scratch memory.
template <class A>
class Chooser {
 public:
  Chooser(const RouterRule& rule, int64_t experts)
      : rule_(rule), group_size_(experts / rule.groups), experts_(rule.top_k), groups_(rule.top_groups) {}

  /// Writes the chosen experts ids[0, K), given the selection scores of E experts.
  void choose(int32_t* ids, const A* selection) {
    experts_.clear();
    if (rule_.groups == rule_.top_groups) {
      offer_group(selection, 0, group_size_ * rule_.groups);
    } else {
      for (int64_t g : open_groups(selection)) offer_group(selection, g * group_size_, (g + 1) * group_size_);
    }
    std::copy(experts_.ids().begin(), experts_.ids().end(), ids);
  }

 private:
  void offer_group(const A* selection, int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) experts_.offer(selection[e], static_cast<int32_t>(e));
  }

  // Returns the indices of the groups with the largest scores, in ascending order. Experts are then offered in the
  // order of their indices, so that the lower index wins a tie.
  std::vector<int32_t> open_groups(const A* selection) {
    constexpr A lowest = -std::numeric_limits<A>::infinity();
    const bool two = group_size_ > 1 && rule_.group_score == RouterGroupScore::best_two;
    groups_.clear();
    for (int64_t g = 0; g < rule_.groups; ++g) {
      A first = lowest, second = lowest;
      for (const A* s = selection + g * group_size_; s < selection + (g + 1) * group_size_; ++s) {
        if (*s > first)
          second = first, first = *s;
        else if (*s > second)
          second = *s;
      }
      groups_.offer(two ? first + second : first, static_cast<int32_t>(g));
    }
    std::vector<int32_t> open = groups_.ids();
    std::sort(open.begin(), open.end());
    return open;
  }

  RouterRule rule_;
  int64_t group_size_;
  Best<A> experts_, groups_;
};

// Copies logits[rows, E] to `scores` and converts them to scores in place.
template <class A>
void score(A* scores, const A* logits, int64_t rows, int64_t experts, RouterScore kind) {
  const auto& loops = cpu::choose<A>(v3::activation_loops, v4::activation_loops);
  std::copy_n(logits, rows * experts, scores);
  if (kind == RouterScore::sigmoid) return loops.sigmoid(scores, rows * experts);
  for (A* row = scores; row < scores + rows * experts; row += experts) {
    const A largest = *std::max_element(row, row + experts);
    for (int64_t e = 0; e < experts; ++e) row[e] -= largest;
  }
  loops.exp(scores, rows * experts);
  for (A* row = scores; row < scores + rows * experts; row += experts) {
    const A sum = std::accumulate(row, row + experts, A(0));
    for (int64_t e = 0; e < experts; ++e) row[e] /= sum;
  }
}

template <class A>
void weigh_token(A* weights, const int32_t* ids, const A* scores, const RouterRule& rule) {
  A sum = 0;
  for (int64_t k = 0; k < rule.top_k; ++k) sum += weights[k] = scores[ids[k]];
  const A divisor = std::max(sum + static_cast<A>(tiny), static_cast<A>(rule.normalize_floor));
  const A factor = static_cast<A>(rule.scale) / (rule.normalize ? divisor : A(1));
  for (int64_t k = 0; k < rule.top_k; ++k) weights[k] *= factor;
}

void forward(Stream& stream, const Tensor& scores, const Tensor& ids, const Tensor& weights, const Tensor& logits,
             const Tensor& bias, const RouterRule& rule) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  check_rule(rule, experts);
  stream.run([=] {
    require_flat("router", "logits", logits, tokens * experts);
    require_flat("router", "scores", scores, tokens * experts);
    require_flat("router", "ids", ids, tokens * rule.top_k);
    require_flat("router", "weights", weights, tokens * rule.top_k);
    if (bias.defined()) require_flat("router", "bias", bias, experts);
    with_dtype<float, double>("router", logits.dtype(), [&]<class A>() {
      const std::vector<A> b = accumulators<A>(bias);
      A *s = scores.data<A>(), *w = weights.data<A>();
      const A* x = logits.data<A>();
      int32_t* id = ids.data<int32_t>();
      parallel_for(tokens, row_grain(8 * experts), [&](int64_t begin, int64_t end) {
        score(s + begin * experts, x + begin * experts, end - begin, experts, rule.score);
        Chooser<A> chooser(rule, experts);
        std::vector<A> selection(experts);
        for (int64_t t = begin; t < end; ++t) {
          const A* row = s + t * experts;
          std::copy_n(row, experts, selection.data());
          for (size_t e = 0; e < b.size(); ++e) selection[e] += b[e];
          chooser.choose(id + t * rule.top_k, selection.data());
          weigh_token(w + t * rule.top_k, id + t * rule.top_k, row, rule);
        }
      });
    });
  });
}

void weigh(Stream& stream, const Tensor& weights, const Tensor& ids, const Tensor& scores, const RouterRule& rule) {
  stream.run([=] {
    const int64_t tokens = scores.dim(0), experts = scores.dim(1);
    require_flat("router", "scores", scores, tokens * experts);
    require_flat("router", "weights", weights, tokens * rule.top_k);
    require_flat("router", "ids", ids, tokens * rule.top_k);
    const int32_t* id = checked_indices<int32_t>("router", "ids", ids, 0, experts);
    with_dtype<float, double>("router", scores.dtype(), [&]<class A>() {
      for (int64_t t = 0; t < tokens; ++t)
        weigh_token(weights.data<A>() + t * rule.top_k, id + t * rule.top_k, scores.data<A>() + t * experts, rule);
    });
  });
}

// Computes the gradient of the logits in two steps. dx[E] holds ds between the steps.
//
// Step 1: ds = dscores. For the chosen experts, adds the gradient through the weights:
// - if the rule does not normalise weights: scale * dw
// - if the sum of the chosen scores is below the floor: scale * dw / floor
// - otherwise: scale * (dw - <dw, s> / sum) / sum
//
// Step 2: dx = s * (ds - <s, ds>) for softmax, and dx = s * (1 - s) * ds for sigmoid.
template <class A>
void backward_token(A* dx, const A* dw, const A* dscores, const A* s, const int32_t* ids, int64_t experts,
                    const RouterRule& rule) {
  for (int64_t e = 0; e < experts; ++e) dx[e] = dscores ? dscores[e] : A(0);
  A sum = 1, mean = 0;
  if (rule.normalize) {
    sum = static_cast<A>(tiny);
    for (int64_t k = 0; k < rule.top_k; ++k) sum += s[ids[k]];
    if (const A floor = static_cast<A>(rule.normalize_floor); sum < floor)
      sum = floor;
    else
      for (int64_t k = 0; k < rule.top_k; ++k) mean += dw[k] * s[ids[k]] / sum;
  }
  for (int64_t k = 0; k < rule.top_k; ++k) dx[ids[k]] += static_cast<A>(rule.scale) * (dw[k] - mean) / sum;
  if (rule.score == RouterScore::sigmoid) {
    for (int64_t e = 0; e < experts; ++e) dx[e] *= s[e] * (1 - s[e]);
    return;
  }
  const A inner = std::inner_product(s, s + experts, dx, A(0));
  for (int64_t e = 0; e < experts; ++e) dx[e] = s[e] * (dx[e] - inner);
}

void backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights, const Tensor& dscores,
              const Tensor& scores, const Tensor& ids, const RouterRule& rule) {
  stream.run([=] {
    const int64_t tokens = scores.dim(0), experts = scores.dim(1);
    require_flat("router", "scores", scores, tokens * experts);
    require_flat("router", "dlogits", dlogits, tokens * experts);
    require_flat("router", "dweights", dweights, tokens * rule.top_k);
    require_flat("router", "ids", ids, tokens * rule.top_k);
    if (dscores.defined()) require_flat("router", "dscores", dscores, tokens * experts);
    const int32_t* id = checked_indices<int32_t>("router", "ids", ids, 0, experts);
    with_dtype<float, double>("router", scores.dtype(), [&]<class A>() {
      const A* ds = dscores.defined() ? dscores.data<A>() : nullptr;
      parallel_for(
          tokens, row_grain(4 * experts),
          [&, dx = dlogits.data<A>(), dw = dweights.data<A>(), s = scores.data<A>()](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t)
              backward_token(dx + t * experts, dw + t * rule.top_k, ds ? ds + t * experts : nullptr, s + t * experts,
                             id + t * rule.top_k, experts, rule);
          });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const RouterKernels RouterKernels::of_cpu{.forward = cpu::forward, .weigh = cpu::weigh, .backward = cpu::backward};

}  // namespace hexad::kernels
