// The recipe's section `model.moe`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/constraints.h"
#include "framework/config/options.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::moe {

/// Group of tokens over which capacity is counted.
enum class CapacityScope : uint8_t { sequence, micro_batch };
constexpr auto enum_names(CapacityScope) {
  return std::to_array<std::pair<CapacityScope, std::string_view>>(
      {{CapacityScope::sequence, "sequence"}, {CapacityScope::micro_batch, "micro_batch"}});
}

/// Group of tokens over which the auxiliary loss computes the experts' fractions.
enum class AuxScope : uint8_t { sequence, micro_batch, global_batch };
constexpr auto enum_names(AuxScope) {
  return std::to_array<std::pair<AuxScope, std::string_view>>({{AuxScope::sequence, "sequence"},
                                                               {AuxScope::micro_batch, "micro_batch"},
                                                               {AuxScope::global_batch, "global_batch"}});
}

/// Source of the choice of experts. All values except `model` are overrides for experiments. With an override,
/// gradients are computed for the experts that the override chooses.
///   - model: the model's router
///   - balanced: all experts in turn
///   - zipf: random experts with a Zipf distribution
///   - trace: the experts recorded in the file model.moe.trace
enum class Routing : uint8_t { model, balanced, zipf, trace };
constexpr auto enum_names(Routing) {
  return std::to_array<std::pair<Routing, std::string_view>>(
      {{Routing::model, "model"}, {Routing::balanced, "balanced"}, {Routing::zipf, "zipf"}, {Routing::trace, "trace"}});
}

/// Tensor that a routing weight multiplies: the result of the expert, or the token that enters the expert (Llama 4).
enum class Weighing : uint8_t { output, input };
constexpr auto enum_names(Weighing) {
  return std::to_array<std::pair<Weighing, std::string_view>>(
      {{Weighing::output, "output"}, {Weighing::input, "input"}});
}

/// Input of a block's MoE layer. In both cases, the block adds the layer's output to its residual stream.
///   - after_attention: the normalised sum of the block's input and attention
///   - before_attention: the block's input, normalised by a separate norm (Arctic). Routing and dispatch then do not
///     depend on attention
enum class ExpertInput : uint8_t { after_attention, before_attention };
constexpr auto enum_names(ExpertInput) {
  return std::to_array<std::pair<ExpertInput, std::string_view>>(
      {{ExpertInput::after_attention, "after_attention"}, {ExpertInput::before_attention, "before_attention"}});
}

/// Kind of MLP of each expert.
enum class ExpertKind : uint8_t { swiglu, gelu };
constexpr auto enum_names(ExpertKind) {
  return std::to_array<std::pair<ExpertKind, std::string_view>>(
      {{ExpertKind::swiglu, "swiglu"}, {ExpertKind::gelu, "gelu"}});
}

struct AuxLossConfig {
  double coefficient = 0.01;
  AuxScope scope = AuxScope::micro_batch;

  template <class V>
  void fields(V& v) {
    v("coefficient", coefficient,
      "weight of the load-balancing loss, which is averaged over MoE layers; 0: no such loss", config::at_least(0));
    v("scope", scope,
      "tokens over which the fraction of each expert is computed; global_batch uses the counts of the previous global "
      "batch");
  }
};

/// Default of model.moe.mixer_jitter: the value of Phi-3.5-MoE.
inline constexpr double usual_mixer_jitter = 0.01;

struct MoeConfig {
  int64_t experts = 0, top_k = 2, expert_hidden = 1024;
  ExpertKind expert = ExpertKind::swiglu;
  std::optional<bool> expert_bias;
  int64_t shared_experts = 0;
  std::optional<int64_t> shared_hidden;
  bool shared_gate = false, dense_residual = false;
  ExpertInput input = ExpertInput::after_attention;
  int64_t dense_layers = 0, every = 1;
  std::string router = "top_k";
  std::vector<config::NumberOption> router_options;
  double mixer_jitter = usual_mixer_jitter;
  kernels::RouterScore score = kernels::RouterScore::softmax;
  bool router_bias = false;
  bool normalize = true;
  double normalize_floor = 0, scale = 1;
  int64_t groups = 1, top_groups = 1;
  kernels::RouterGroupScore group_score = kernels::RouterGroupScore::best_two;
  Weighing weigh = Weighing::output;
  std::optional<double> capacity_factor;
  kernels::DropRule drop = kernels::DropRule::probability;
  CapacityScope capacity_scope = CapacityScope::micro_batch;
  AuxLossConfig aux_loss;
  double z_loss = 0, bias_rate = 0;
  std::optional<bool> selection_bias;
  Routing routing = Routing::model;
  double zipf_exponent = 1;
  std::string trace;

  bool has_selection_bias() const { return selection_bias.value_or(bias_rate > 0); }
  /// True if experts choose tokens, so that a token has a variable number of experts.
  bool experts_choose() const { return router == "expert_choice"; }
  /// Returns the mean number of experts of a token, before drops. The result is only an upper bound if experts choose
  /// tokens: a token keeps at most top_k of the experts that choose it.
  double experts_of_token() const {
    const auto most = static_cast<double>(top_k);
    return experts_choose() ? most * capacity_factor.value_or(1) : most;
  }

  kernels::RouterRule rule() const {
    return {.score = score,
            .top_k = top_k,
            .normalize = normalize,
            .normalize_floor = normalize_floor,
            .scale = scale,
            .groups = groups,
            .top_groups = top_groups,
            .group_score = group_score};
  }

  template <class V>
  void fields(V& v) {
    using config::at_least, config::at_most, config::automatic, config::positive;
    v("experts", experts, "number of routed experts of an MoE layer; 0: a dense model", at_least(0), at_most(1 << 16));
    v("top_k", top_k,
      "number of routed experts that process a token; for router: expert_choice, the maximum number: further experts "
      "that choose a token do not process it",
      at_least(1));
    v("expert_hidden", expert_hidden, "hidden width of an expert's MLP", at_least(1), at_most(1 << 24));
    v("expert", expert, "kind of MLP of an expert");
    v("expert_bias", expert_bias, "the experts' linear layers have biases; auto: model.bias", automatic);
    v("shared_experts", shared_experts, "number of experts that process every token, fused into one MLP", at_least(0),
      at_most(1 << 16));
    v("shared_hidden", shared_hidden, "hidden width of one shared expert; auto: expert_hidden", automatic, at_least(1),
      at_most(1 << 24));
    v("shared_gate", shared_gate,
      "the result of the shared experts is multiplied by the sigmoid of a linear map of the token (Qwen2-MoE)");
    v("dense_residual", dense_residual,
      "adds the output of a dense MLP (of width model.mlp_hidden) to that of the experts, as in Arctic");
    v("input", input,
      "input of the router and of the experts: after_attention (the normalised sum of the block's input and attention) "
      "or before_attention (the block's input, normalised by a separate norm, as in Arctic)");
    v("dense_layers", dense_layers,
      "number of blocks at the beginning of the model that have a dense MLP instead of experts", at_least(0));
    v("every", every, "n: every n-th of the remaining blocks has experts, and all other blocks have a dense MLP",
      at_least(1));
    v("router", router,
      "router, which chooses a token's experts: top_k (the highest scores of a linear gate; the keys from score to "
      "group_score apply only to top_k), sparse_mixer (the highest logits of a linear gate, each weighed against "
      "logits near it, as in Phi-3.5-MoE, but without random sampling), expert_choice (each expert chooses the tokens "
      "with the highest probabilities: Zhou et al. 2022, only for encoders), or the name of a registered router");
    v("router_options", router_options, "options of a registered router, each with a name and a number");
    v("mixer_jitter", mixer_jitter,
      "router: sparse_mixer: width of the range of near candidates. An expert's weight is its share of a softmax over "
      "near candidates. Candidates are the experts that no earlier slot of the token uses, and m is their highest "
      "logit. A candidate with logit x is near if m - x is at most 2 mixer_jitter max(|x|, m)",
      at_least(0));
    v("score", score, "function that turns logits into scores");
    v("router_bias", router_bias, "the linear gate adds a trainable bias to each expert's logit");
    v("normalize", normalize, "scales the weights of a token's experts so that they sum to one");
    v("normalize_floor", normalize_floor,
      "lower bound of the sum by which normalize divides a token's weights (ERNIE 4.5); 0: no bound", at_least(0));
    v("scale", scale, "factor applied to the routing weights of a token's experts, after normalize", positive());
    v("groups", groups, "group-limited routing: number of equal groups of experts", at_least(1));
    v("top_groups", top_groups, "number of groups from which a token may choose experts", at_least(1));
    v("group_score", group_score,
      "score of a group for a token: best_two (sum of the group's two highest scores: DeepSeek-V3) or best (highest "
      "score of the group: DeepSeek-V2's device-limited routing)");
    v("weigh", weigh,
      "tensor that the routing weight multiplies: output (the result of the expert) or input (the token that enters "
      "the expert, as in Llama 4; needs top_k: 1)");
    v("capacity_factor", capacity_factor,
      "maximum load of an expert as a multiple of the mean load, which is top_k tokens / experts. An expert drops "
      "tokens beyond its maximum load. none: no token is dropped. With router: expert_choice, each expert chooses "
      "this multiple of the mean load, and the multiple must be at most 1",
      positive());
    v("drop", drop,
      "tokens that an expert keeps if it exceeds its capacity: those with the highest scores, or the first by "
      "position");
    v("capacity_scope", capacity_scope,
      "tokens over which capacity is counted; for router: expert_choice, the tokens among which each expert chooses");
    v("aux_loss", aux_loss, "load-balancing loss");
    v("z_loss", z_loss, "weight of the mean squared logsumexp of router logits, averaged over MoE layers", at_least(0));
    v("bias_rate", bias_rate,
      "auxiliary-loss-free balancing (Wang et al. 2024): amount by which a global batch changes a "
      "selection bias; 0: off",
      at_least(0));
    v("selection_bias", selection_bias,
      "each expert has a bias that is added to its scores only for the choice of experts (DeepSeek-V3, ERNIE 4.5), and "
      "that bias_rate updates; auto: true if bias_rate is above 0",
      automatic);
    v("routing", routing,
      "source of the choice of experts: model, or an override for experiments: balanced (round robin), zipf (skewed), "
      "trace (from a file)");
    v("zipf_exponent", zipf_exponent, "exponent of the Zipf distribution for routing: zipf; 0: uniform", at_least(0));
    v("trace", trace,
      "file for routing: trace, with one line of top_k expert numbers per token; a file that is too short is repeated "
      "from its start",
      config::file_path);
  }
};

}  // namespace hexad::moe
