#include "tools/train/recipe/recipe_rules.h"

#include "framework/base/error.h"
#include "tools/train/recipe/layout_check.h"

namespace hexad::train {

using base::cat;
using config::Problems;

namespace {

void check_prediction(const layers::ModelConfig& m, Problems& problems) {
  if (m.prediction_blocks == 0) {
    if (m.prediction_weight != layers::usual_prediction_weight)
      problems.add("model.prediction_weight", "is given, but model.prediction_blocks is 0; expected at least 1");
    return;
  }
  if (m.kind != layers::ModelKind::decoder)
    problems.add("model.prediction_blocks", "must be 0 for model.kind: encoder, which predicts no further tokens");
  else if (m.prediction_blocks >= m.context)
    problems.add("model.prediction_blocks",
                 cat("must be below model.context (", m.context, "), because prediction block ", m.context,
                     " would have no targets; nearest: ", m.context - 1));
}

void check_swiglu_limit(const layers::ModelConfig& m, Problems& problems) {
  const bool dense = m.mlp == "swiglu" && (m.moe_layers() < m.blocks() || m.moe.dense_residual);
  const bool experts = m.moe.expert == moe::ExpertKind::swiglu && m.moe_layers() > 0;
  if (m.swiglu_limit && !dense && !experts)
    problems.add("model.swiglu_limit",
                 "must be none for a model without a SwiGLU: no block has a dense MLP (model.mlp) or experts "
                 "(model.moe.expert) of this kind");
}

void check_moe(const layers::ModelConfig& model, Problems& problems) {
  const moe::MoeConfig& m = model.moe;
  if (m.experts == 0) return;
  if (m.top_k > m.experts) problems.add("model.moe.top_k", cat("must be at most model.moe.experts (", m.experts, ")"));
  check_divisible(problems, "model.moe.experts", m.experts, "model.moe.groups", m.groups);
  if (m.top_groups > m.groups)
    problems.add("model.moe.top_groups", cat("must be at most model.moe.groups (", m.groups, ")"));
  else if (m.groups > 1 && m.experts % m.groups == 0 && m.top_k > m.top_groups * (m.experts / m.groups))
    problems.add("model.moe.top_k",
                 cat("must be at most ", m.top_groups * (m.experts / m.groups),
                     ", the number of experts in model.moe.top_groups (", m.top_groups, ") of model.moe.groups (",
                     m.groups, "); set a smaller top_k or more top_groups"));
  if (m.group_score != kernels::RouterGroupScore::best_two && m.top_groups == m.groups)
    problems.add("model.moe.group_score",
                 cat("ranks groups, but a token may choose from all groups: model.moe.top_groups is model.moe.groups (",
                     m.groups, "); set groups above top_groups, or group_score: best_two"));
  if (m.shared_gate && m.shared_experts == 0)
    problems.add("model.moe.shared_gate", "must be false for model.moe.shared_experts: 0, which has no result to gate");
  if (m.mixer_jitter != moe::usual_mixer_jitter && m.router != "sparse_mixer")
    problems.add("model.moe.mixer_jitter", cat("is not read by the router ", m.router,
                                               ": remove this key, or set model.moe.router: sparse_mixer"));
  if (m.weigh == moe::Weighing::input && m.top_k != 1)
    problems.add("model.moe.weigh",
                 cat("must be output for model.moe.top_k (", m.top_k,
                     "): only a token with one expert can be multiplied before it enters the expert"));
  if (m.normalize_floor > 0 && !m.normalize)
    problems.add("model.moe.normalize_floor", "must be 0 for model.moe.normalize: false, which divides no weights");
  if (m.bias_rate > 0 && !m.has_selection_bias())
    problems.add("model.moe.selection_bias",
                 cat("must be auto or true for model.moe.bias_rate (", m.bias_rate, "), which changes this bias"));
  if (model.moe_layers_before(model.layers) == 0)
    problems.add("model.moe.experts",
                 cat("is set, but no layer has experts: dense_layers ", m.dense_layers, ", every ", m.every,
                     ", layers ", model.layers, "; set a smaller dense_layers or every, or experts: 0"));
  if (m.routing == moe::Routing::trace && m.trace.empty())
    problems.add("model.moe.trace", "must name a file for model.moe.routing: trace");
}

}  // namespace

void check_model(const layers::ModelConfig& model, Problems& problems) {
  check_attention(model, problems);
  if (problems.good({"model.kind", "model.context", "model.prediction_blocks", "model.prediction_weight"}))
    check_prediction(model, problems);
  check_rotary_scaling(model, problems);
  if (problems.good({"model.moe", "model.layers"})) check_moe(model, problems);
  if (problems.good({"model.kind", "model.moe"})) check_expert_choice(model, problems);
  if (problems.good({"model.moe", "model.layers", "model.prediction_blocks", "model.mlp", "model.swiglu_limit"}))
    check_swiglu_limit(model, problems);
}

}  // namespace hexad::train
