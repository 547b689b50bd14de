#include "layers/moe/router/router.h"

namespace hexad::moe {

using namespace autograd;
using namespace base;

Gate::Gate(const RouterSpec& s, int64_t out, int64_t in, const Builder& b)
    : weight_(&b.parameter(
          "weight", {out, in},
          {.init = {Init::Kind::normal, s.model.init_std}, .placement = b.partial(), .accumulator = true})) {}

Value Gate::operator()(Tape& t, const Value& x, const RouterInput& in) const {
  const auto& k = kernels::kernels(x.device()).matmul;
  Parameter& w = *weight_;
  const Tensor out = Tensor::empty({x.data.dim(0), w.shape()[0]}, w.dtype(), x.device());
  k.forward(t.stream, out, x.data, w.use(t.stream), kernels::Write::replace);
  const int64_t begin = in.own_begin, end = in.own_end;
  return t.record("router_logits", out, {x}, save(x.data.slice(0, begin, end)),
                  [&k, &w, shape = x.shape(), dtype = x.data.dtype()](Backward& b, const Tensor& dout, const Saved&) {
                    b.accumulate(0, shape, dtype, [&](const Tensor& dx, const Tensor& so_far) {
                      k.input_gradient(b.stream, dx, dout, w.use(b.stream), add_to(b.stream, dx, so_far));
                    });
                  },
                  {{&w}, [&k, &w, begin, end](Backward& b, const Tensor& dout, const Saved& s) {
                     auto [rows] = s.get<1>();
                     const Tensor& dw = w.gradient();
                     k.weight_gradient(b.stream, dw, dout.slice(0, begin, end), rows, w.next_write());
                   }});
}

namespace {

class TopKRouter final : public Router {
 public:
  TopKRouter(const RouterSpec& s, const Builder& b)
      : rule_(s.rule()), gate_(s, s.model.moe.experts, s.model.hidden, b) {}

  RouterOutput operator()(Tape& t, const RouterInput& in) const override {
    const Value logits = gate_(t, in.x, in);
    return {logits, choose_experts(t, logits, in.bias, rule_, in.forced)};
  }

 private:
  kernels::RouterRule rule_;
  Gate gate_;
};

}  // namespace

config::OptionsOwner router_options(const ModelConfig& model) {
  return {"model.moe.router_options", "the router " + model.moe.router};
}

std::vector<std::string_view> score_rule_keys(const ModelConfig& model) {
  const MoeConfig &m = model.moe, usual;
  std::vector<std::string_view> keys;
  if (m.score != usual.score) keys.push_back("score");
  if (m.normalize != usual.normalize) keys.push_back("normalize");
  if (m.normalize_floor != usual.normalize_floor) keys.push_back("normalize_floor");
  if (m.scale != usual.scale) keys.push_back("scale");
  if (m.groups != usual.groups) keys.push_back("groups");
  if (m.top_groups != usual.top_groups) keys.push_back("top_groups");
  if (m.group_score != usual.group_score) keys.push_back("group_score");
  return keys;
}

kernels::RouterRule RouterSpec::rule() const {
  require(declared.uses_score_rule, "[router ", model.moe.router, "] reads the score rule, which it does not declare");
  return model.moe.rule();
}

std::map<std::string, RouterDeclaration> built_in_routers() {
  return {
      {"top_k", {.uses_score_rule = true, .selects_by_bias = true, .make = [](const RouterSpec& s, const Builder& b) {
                   return std::make_unique<TopKRouter>(s, b);
                 }}}};
}

}  // namespace hexad::moe
