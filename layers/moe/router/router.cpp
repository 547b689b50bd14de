#include "layers/moe/router/router.h"

#include "layers/moe/router/expert_choice.h"

namespace hexad::moe {

using namespace autograd;
using namespace base;

Gate::Gate(const RouterSpec& s, int64_t out, int64_t in, const Builder& b, bool bias)
    : weight_(&b.parameter(
          "weight", {out, in},
          {.init = {Init::Kind::normal, s.model.init_std}, .placement = b.partial(), .accumulator = true})),
      bias_(
          bias ? &b.parameter(
                     "logit_bias", {out},
                     {.init = {Init::Kind::constant, 0}, .decay = false, .placement = b.partial(), .accumulator = true})
               : nullptr) {}

Value Gate::operator()(Tape& t, const Value& x, const RouterInput& in) const {
  const auto& table = kernels::kernels(x.device());
  const auto& k = table.matmul;
  Parameter& w = *weight_;
  Parameter* const bias = bias_;
  const Tensor out = Tensor::empty({x.data.dim(0), w.shape()[0]}, w.dtype(), x.device());
  k.forward(t.stream, out, x.data, w.use(t.stream), kernels::Write::replace);
  std::vector<Parameter*> parameters{&w};
  if (bias) {
    table.bias.forward(t.stream, out, bias->use(t.stream));
    parameters.push_back(bias);
  }
  const int64_t begin = in.own_begin, end = in.own_end;
  return t.record("router_logits", out, {x}, save(x.data.slice(0, begin, end)),
                  [&k, &w, shape = x.shape(), dtype = x.data.dtype()](Backward& b, const Tensor& dout, const Saved&) {
                    b.accumulate(0, shape, dtype, [&](const Tensor& dx, const Tensor& so_far) {
                      k.input_gradient(b.stream, dx, dout, w.use(b.stream), add_to(b.stream, dx, so_far));
                    });
                  },
                  {parameters, [&table, &w, bias, begin, end](Backward& b, const Tensor& dout, const Saved& s) {
                     auto [rows] = s.get<1>();
                     const Tensor own = dout.slice(0, begin, end);
                     if (w.trainable()) {
                       const Tensor& dw = w.gradient();
                       table.matmul.weight_gradient(b.stream, dw, own, rows, w.next_write());
                     }
                     if (bias && bias->trainable()) table.bias.backward(b.stream, bias->gradient_to_add(b.stream), own);
                   }});
}

namespace {

class TopKRouter final : public Router {
 public:
  TopKRouter(const RouterSpec& s, const Builder& b)
      : rule_(s.rule()), gate_(s, s.model.moe.experts, s.model.hidden, b, s.model.moe.router_bias) {}

  RouterOutput operator()(Tape& t, const RouterInput& in) const override {
    const Value logits = gate_(t, in.x, in);
    return {logits, choose_experts(t, logits, in.bias, rule_, in.forced)};
  }

 private:
  kernels::RouterRule rule_;
  Gate gate_;
};

/// Chooses the experts with the highest logits and weighs them by the rule of kernels::SparseMixerKernels.
class SparseMixerRouter final : public Router {
 public:
  SparseMixerRouter(const RouterSpec& s, const Builder& b)
      : rule_{.top_k = s.model.moe.top_k, .normalize = false},
        tolerance_(2 * s.model.moe.mixer_jitter),
        gate_(s, s.model.moe.experts, s.model.hidden, b) {}

  RouterOutput operator()(Tape& t, const RouterInput& in) const override {
    const Value logits = gate_(t, in.x, in);
    RouterChoice choice = choose_experts(t, logits, {}, rule_, in.forced);
    choice.weights = sparse_mixer_weights(t, logits, choice.ids, tolerance_);
    return {logits, choice};
  }

 private:
  kernels::RouterRule rule_;
  double tolerance_;
  Gate gate_;
};

/// Lets experts choose tokens. The weight of an expert is its probability in the softmax over all experts.
class ExpertChoiceRouter final : public Router {
 public:
  ExpertChoiceRouter(const RouterSpec& s, const Builder& b)
      : config_(s.model.moe), tokens_(&b.mesh().tokens()), gate_(s, s.model.moe.experts, s.model.hidden, b) {}

  RouterOutput operator()(Tape& t, const RouterInput& in) const override {
    const Value logits = gate_(t, in.x, in);
    RouterChoice choice = choose_experts(t, logits, {}, {.top_k = config_.top_k, .normalize = false}, {});
    choice.ids = in.forced.defined() ? in.forced : ids(choice.scores.data, in, t.stream);
    choice.weights = chosen_scores(t, choice.scores, choice.ids);
    return {logits, choice};
  }

 private:
  Tensor ids(const Tensor& scores, const RouterInput& in, device::Stream& stream) const {
    const layers::MicroBatch& batch = in.context.batch;
    return choose_tokens(scores, in.own_begin, in.own_end, config_.top_k, batch, *tokens_,
                         choices_of_experts(config_, batch), stream);
  }

  const MoeConfig config_;
  const comm::ProcessGroup* tokens_;
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
  if (m.router_bias != usual.router_bias) keys.push_back("router_bias");
  if (m.normalize != usual.normalize) keys.push_back("normalize");
  if (m.normalize_floor != usual.normalize_floor) keys.push_back("normalize_floor");
  if (m.scale != usual.scale) keys.push_back("scale");
  if (m.groups != usual.groups) keys.push_back("groups");
  if (m.top_groups != usual.top_groups) keys.push_back("top_groups");
  if (m.group_score != usual.group_score) keys.push_back("group_score");
  return keys;
}

kernels::RouterRule RouterSpec::rule() const {
  require(declared.uses_score_rule, "[router ", model.moe.router,
          "] reads the score rule; expected uses_score_rule in its declaration");
  return model.moe.rule();
}

std::map<std::string, RouterDeclaration> built_in_routers() {
  return {{"top_k",
           {.uses_score_rule = true,
            .selects_by_bias = true,
            .make = [](const RouterSpec& s, const Builder& b) { return std::make_unique<TopKRouter>(s, b); }}},
          {"sparse_mixer",
           {.make = [](const RouterSpec& s, const Builder& b) { return std::make_unique<SparseMixerRouter>(s, b); }}},
          {"expert_choice",
           {.make = [](const RouterSpec& s, const Builder& b) { return std::make_unique<ExpertChoiceRouter>(s, b); }}}};
}

}  // namespace hexad::moe
