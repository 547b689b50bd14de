#include "tools/train/recipe/cautions.h"

#include <string_view>

#include <fmt/format.h>

namespace hexad::train {

namespace {

using layers::PositionKind;

// Returns a warning if the router gets no gradient from the data, because each token's only expert has a constant
// weight. Otherwise, returns an empty text.
std::string router_line(const layers::ModelConfig& model) {
  const moe::MoeConfig& m = model.moe;
  if (model.moe_layers() == 0 || m.router != "top_k") return {};
  const bool softmax = m.score == kernels::RouterScore::softmax;
  std::string why;
  // The best score of a softmax is at least 1 / experts. If the floor is higher, the routing weight can vary with the
  // score.
  const bool floored = m.normalize_floor * static_cast<double>(m.experts) > 1;
  if (m.normalize && m.top_k == 1 && !floored)
    why = fmt::format(
        "model.moe.normalize: true with model.moe.top_k: 1 makes the weight of a token's only expert {} for all "
        "logits of the router",
        m.scale);
  else if (softmax && m.experts == 1)
    why = "model.moe.experts: 1 with model.moe.score: softmax makes every weight 1 for all logits of the router";
  else
    return {};
  const bool auxiliary = m.aux_loss.coefficient > 0 || m.z_loss > 0;
  const std::string remedy = m.experts == 1 ? "model.moe.score: sigmoid with normalize: false lets the router learn"
                                            : "model.moe.normalize: false lets the router learn";
  return fmt::format("{}: the router's weights get {}; {}", why,
                     auxiliary ? "a gradient only from the auxiliary losses, none from the data"
                               : "no gradient and change only by rounding",
                     remedy);
}

}  // namespace

std::vector<std::string> untrained(const Recipe& recipe) {
  const layers::ModelConfig& m = recipe.model;
  std::vector<std::string> all;
  const auto add = [&](std::string_view line) { all.emplace_back(line); };
  if (const std::string line = router_line(m); !line.empty()) add(line);
  if (m.context == 1)
    add("model.context: 1 lets a token attend only to itself, so queries and keys (q, k) get no gradient; 2 or more "
        "lets them learn");
  else if (m.has_qkv_bias() && m.position == PositionKind::learned && m.qk_norm == layers::QkNorm::none && !m.qkv_clip)
    add("model.bias or model.qkv_bias: true with model.position: learned gives keys a bias (k.bias) that adds the same "
        "value to all scores of a query, so k.bias gets no gradient, which is harmless; with rotary positions, qk_norm "
        "or qkv_clip, k.bias learns");
  if (m.hidden == 1)
    add("model.hidden: 1 makes every norm remove the magnitude of its only element, so no parameter before the last "
        "norm gets a gradient; 2 or more lets these parameters learn");
  if (m.vocab == 1)
    add("model.vocab: 1 makes every prediction right, so no parameter gets a gradient; 2 or more gives a loss");
  return all;
}

}  // namespace hexad::train
