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

/// Source of the choice of experts: the model, or an override for experiments. Under an override, gradients are those
/// of the experts that the override chooses.
enum class Routing : uint8_t { model, balanced, zipf, trace };
constexpr auto enum_names(Routing) {
  return std::to_array<std::pair<Routing, std::string_view>>(
      {{Routing::model, "model"}, {Routing::balanced, "balanced"}, {Routing::zipf, "zipf"}, {Routing::trace, "trace"}});
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
    v("coefficient", coefficient, "weight of the load-balancing loss, averaged over MoE layers; 0: none",
      config::at_least(0));
    v("scope", scope,
      "tokens over which expert fractions are taken; global_batch uses the counts of the previous global batch");
  }
};

struct MoeConfig {
  int64_t experts = 0, top_k = 2, expert_hidden = 1024;
  ExpertKind expert = ExpertKind::swiglu;
  std::optional<bool> expert_bias;
  int64_t shared_experts = 0;
  std::optional<int64_t> shared_hidden;
  bool shared_gate = false, dense_residual = false;
  int64_t dense_layers = 0, every = 1;
  std::string router = "top_k";
  std::vector<config::NumberOption> router_options;
  kernels::RouterScore score = kernels::RouterScore::softmax;
  bool router_bias = false;
  bool normalize = true;
  double normalize_floor = 0, scale = 1;
  int64_t groups = 1, top_groups = 1;
  kernels::RouterGroupScore group_score = kernels::RouterGroupScore::best_two;
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
    using config::at_least, config::automatic, config::positive;
    v("experts", experts, "routed experts of an MoE layer; 0: a dense model", at_least(0));
    v("top_k", top_k, "experts that a token visits", at_least(1));
    v("expert_hidden", expert_hidden, "width of an expert's MLP", at_least(1));
    v("expert", expert, "kind of an expert's MLP");
    v("expert_bias", expert_bias, "biases in the experts' linear layers; auto: model.bias", automatic);
    v("shared_experts", shared_experts, "experts that every token visits, fused into one MLP", at_least(0));
    v("shared_hidden", shared_hidden, "width of one shared expert; auto: expert_hidden", automatic, at_least(1));
    v("shared_gate", shared_gate,
      "the result of the shared experts is multiplied by the sigmoid of a linear map of the token (Qwen2-MoE)");
    v("dense_residual", dense_residual, "a dense MLP (model.mlp_hidden) beside the experts, as in Arctic");
    v("dense_layers", dense_layers, "number of first blocks that have a dense MLP instead of experts", at_least(0));
    v("every", every, "n: every n-th of the remaining blocks has experts; the other ones have a dense MLP",
      at_least(1));
    v("router", router,
      "router, which chooses a token's experts: top_k (the highest scores of a linear gate; the keys from score to "
      "group_score apply only to it), or the name of a registered router");
    v("router_options", router_options, "options of a registered router, each a name and a number");
    v("score", score, "function that turns logits into scores");
    v("router_bias", router_bias, "the linear gate adds a trainable bias to each expert's logit");
    v("normalize", normalize, "scale the weights of a token's experts so that they sum to one");
    v("normalize_floor", normalize_floor,
      "least sum of a token's weights by which normalize divides them (ERNIE 4.5); 0: none", at_least(0));
    v("scale", scale, "factor applied to the routing weights of a token's experts, after normalize", positive());
    v("groups", groups, "group-limited routing: number of equal groups of experts", at_least(1));
    v("top_groups", top_groups, "groups from which a token may choose experts", at_least(1));
    v("group_score", group_score,
      "rank of a group for a token: best_two (the sum of the group's two best scores: DeepSeek-V3) or best (its best "
      "score: DeepSeek-V2's device-limited routing)");
    v("capacity_factor", capacity_factor,
      "largest load of an expert as a multiple of the mean load; tokens above it are dropped; none: no token is "
      "dropped",
      positive());
    v("drop", drop, "tokens that an expert over capacity keeps: the most probable, or the first by position");
    v("capacity_scope", capacity_scope, "tokens over which capacity is counted");
    v("aux_loss", aux_loss, "load-balancing loss");
    v("z_loss", z_loss, "weight of the mean squared logsumexp of router logits, averaged over MoE layers", at_least(0));
    v("bias_rate", bias_rate,
      "auxiliary-loss-free balancing (Wang et al. 2024): step of the selection bias per global batch; 0: off",
      at_least(0));
    v("selection_bias", selection_bias,
      "each expert has a bias that is added to its scores in the choice only (DeepSeek-V3, ERNIE 4.5); it changes by "
      "bias_rate; auto: if bias_rate is above 0",
      automatic);
    v("routing", routing,
      "source of the routing: model, or an override: balanced (round robin), zipf (skewed), trace (from a file)");
    v("zipf_exponent", zipf_exponent, "exponent of the skew for routing: zipf; 0: no skew", at_least(0));
    v("trace", trace,
      "file for routing: trace, with one line of top_k expert numbers per token; repeated from the start if it is too "
      "short",
      config::file_path);
  }
};

}  // namespace hexad::moe
