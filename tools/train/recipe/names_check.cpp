#include "tools/train/recipe/recipe_rules.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/options.h"
#include "framework/config/words.h"
#include "layers/dense/feed_forward.h"

namespace hexad::train {

using base::cat;
using config::Problems;

namespace {

void check_name(std::string_view key, const std::string& name, std::string_view kind,
                const std::vector<std::string>& known, Problems& problems) {
  if (std::ranges::find(known, name) == known.end())
    problems.add(key, cat("is not a registered ", kind, "; registered: ", config::nearest_first(name, known)));
}

// Rejects keys that the recipe's router does not read.
void check_router(const layers::ModelConfig& m, const moe::RouterDeclaration& router, Problems& problems) {
  config::check_options(moe::router_options(m), router.options, m.moe.router_options, problems);
  if (!router.uses_score_rule)
    for (const std::string_view key : moe::score_rule_keys(m))
      problems.add(cat("model.moe.", key),
                   cat("is not read by the router ", m.moe.router,
                       ", which computes weights from logits by its own rule: remove this key, or set "
                       "model.moe.router: top_k"));
  if (m.moe.bias_rate > 0 && !router.selects_by_bias)
    problems.add("model.moe.bias_rate",
                 cat("must be 0 for the router ", m.moe.router, ", whose selection has no bias"));
  else if (m.moe.has_selection_bias() && !router.selects_by_bias)
    problems.add("model.moe.selection_bias",
                 cat("must be auto or false for the router ", m.moe.router, ", whose selection has no bias"));
}

}  // namespace

void check_names(const Recipe& r, const Extensions& extensions, Problems& problems) {
  const layers::ModelConfig& m = r.model;
  if (problems.good({"model"})) {
    check_name("model.mlp", m.mlp, "layer", extensions.feed_forward_names(), problems);
    if (const auto* layer = extensions.feed_forward(m.mlp))
      config::check_options(layers::feed_forward_options(m), layer->options, m.mlp_options, problems);
    check_name("model.moe.router", m.moe.router, "router", extensions.router_names(), problems);
    if (const auto* router = extensions.router(m.moe.router)) check_router(m, *router, problems);
  }
  if (problems.good({"optim"})) {
    check_name("optim.name", r.optim.name, "optimizer", extensions.optimizers.names(), problems);
    if (const auto* rule = extensions.optimizers.find(r.optim.name)) {
      config::check_options(optim::rule_options(r.optim), rule->options, r.optim.options, problems);
      if (const std::string wrong = optim::moment_dtype_problem(r.optim, *rule); !wrong.empty())
        problems.add("optim.moment_dtype", wrong);
      if (const std::string wrong = optim::main_weights_problem(r.optim, *rule); !wrong.empty())
        problems.add("optim.main_weights", wrong);
      if (r.optim.overlap && problems.good({"optim"}))
        if (const std::string wrong = optim::overlap_problem(r.optim, *rule->make({r.optim, *rule})); !wrong.empty())
          problems.add("optim.overlap", wrong);
      if (const std::string key = optim::misplaced_muon_key(r.optim); !key.empty())
        problems.add(key, cat("is given, but optim.name is ", r.optim.name, "; expected muon"));
    }
  }
  if (problems.good({"data"}) && !r.data.source.empty()) {
    check_name("data.source", r.data.source, "data source", extensions.sources.names(), problems);
    if (const auto* source = extensions.sources.find(r.data.source))
      config::check_options(data::source_options(r.data.source), source->options, r.data.source_options, problems);
  }
}

}  // namespace hexad::train
