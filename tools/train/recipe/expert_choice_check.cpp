#include "tools/train/recipe/recipe_rules.h"

#include "framework/base/error.h"

namespace hexad::train {

void check_expert_choice(const layers::ModelConfig& model, config::Problems& problems) {
  const moe::MoeConfig& m = model.moe;
  if (m.experts == 0 || !m.experts_choose()) return;
  const auto require_value = [&](bool holds, std::string_view key, std::string_view expected) {
    if (!holds) problems.add(key, base::cat("must be ", expected));
  };
  require_value(
      model.kind == layers::ModelKind::encoder, "model.kind",
      "encoder for model.moe.router: expert_choice, because an expert chooses among all tokens of a sequence, but "
      "a decoder must not read later tokens");
  require_value(m.capacity_factor.has_value(), "model.moe.capacity_factor",
                "a number for model.moe.router: expert_choice, because each expert chooses capacity_factor x top_k / "
                "experts of the tokens");
  require_value(m.capacity_factor.value_or(1) <= 1, "model.moe.capacity_factor",
                "at most 1 for model.moe.router: expert_choice, because experts would choose more tokens than there "
                "are slots; a larger top_k adds slots; nearest: 1");
  require_value(m.aux_loss.coefficient == 0, "model.moe.aux_loss.coefficient",
                "0 for model.moe.router: expert_choice, whose experts all choose the same number of tokens");
  require_value(m.drop == kernels::DropRule::probability, "model.moe.drop",
                "probability for model.moe.router: expert_choice, whose experts choose by score and drop no tokens");
  require_value(m.routing == moe::Routing::model, "model.moe.routing",
                "model for model.moe.router: expert_choice, because an override chooses the experts of each token");
}

}  // namespace hexad::train
