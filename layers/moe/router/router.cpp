#include "layers/moe/router/router.h"

#include "layers/moe/router/router_logits.h"

namespace hexad::moe {

using namespace autograd;
using namespace base;
namespace {

class TopKRouter final : public Router {
 public:
  TopKRouter(const RouterSpec& s, const Builder& b)
      : rule_(s.rule()), gate_(s, s.model.moe.experts, s.model.hidden, b) {}

  RouterOutput operator()(Tape& t, const RouterInput& in) const override {
    const Value logits = gate_(t, in.x, in);
    return {logits, choose_experts(t, logits, in.bias, rule_, in.forced)};
  }
  bool selects_by_bias() const override { return true; }

 private:
  kernels::RouterRule rule_;
  Gate gate_;
};

}  // namespace

const kernels::RouterRule& RouterSpec::rule() const {
  *rule_asked = true;
  return rule_in_recipe;
}

void RouterSpec::require_all_asked() const {
  options.require_all_asked();
  if (*rule_asked) return;
  const MoeConfig &m = model.moe, usual;
  const auto refuse_unless = [&](bool same, std::string_view key) {
    if (!same)
      fail(ExitCode::usage, "model.moe.", key, " is not read by the router ", m.router,
           ", which has its own way from logits to weights: leave it out, or choose model.moe.router: top_k");
  };
  refuse_unless(m.score == usual.score, "score");
  refuse_unless(m.normalize == usual.normalize, "normalize");
  refuse_unless(m.scale == usual.scale, "scale");
  refuse_unless(m.groups == usual.groups, "groups");
  refuse_unless(m.top_groups == usual.top_groups, "top_groups");
}

Gate::Gate(const RouterSpec& s, int64_t out, int64_t in, const Builder& b)
    : weight_(&b.parameter(
          "weight", {out, in},
          {.init = {Init::Kind::normal, s.model.init_std}, .placement = b.partial(), .accumulator = true})) {}

Value Gate::operator()(Tape& t, const Value& x, const RouterInput& in) const {
  return router_logits(t, x, *weight_, in.own_begin, in.own_end);
}

std::map<std::string, RouterFactory> built_in_routers() {
  return {{"top_k", [](const RouterSpec& s, const Builder& b) { return std::make_unique<TopKRouter>(s, b); }}};
}

}  // namespace hexad::moe
