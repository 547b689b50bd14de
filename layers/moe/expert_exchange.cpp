#include "layers/moe/expert_exchange.h"

#include "framework/schedule/executor.h"
#include "parallel/ep/exchange.h"

namespace hexad::moe {

using schedule::Lane;

schedule::TaskGraph make_expert_graph(ExpertPass& pass) {
  schedule::TaskGraph graph;
  ExpertPass* p = &pass;
  const ep::RoutingPlan& plan = *pass.plan;
  const comm::ProcessGroup& etp = *pass.groups.etp;
  const int64_t row_bytes = pass.send.dim(1) * size_of(pass.send.dtype());
  auto last = graph.add({Lane::inter, "S", {.wire_bytes = plan.rows_to_send() * row_bytes}}, {}, [p](Stream& s) {
    auto [data, arrived] = ep::send_to_experts(*p->plan, p->send, *p->groups.ep, s);
    p->dispatched = data;
    return arrived;
  });
  if (etp.size() > 1)
    last = graph.add({Lane::intra, "G", {.wire_bytes = (etp.size() - 1) * plan.rows_received() * row_bytes}}, {last},
                     [p](Stream& s) {
                       auto [data, arrived] = ep::share_rows(*p->plan, p->dispatched, *p->groups.etp, s);
                       p->dispatched = data;
                       return arrived;
                     });
  last = graph.add({Lane::compute, "C"}, {last}, [p](Stream& s) {
    p->send = {};
    const Tensor grouped = ep::group_by_expert(*p->plan, std::exchange(p->dispatched, {}), s);
    p->computed = ep::group_by_source(*p->plan, p->compute(s, grouped), s);
    return device::Event{};
  });
  if (etp.size() > 1)
    last = graph.add({Lane::intra, "A", {.wire_bytes = (plan.rows_computed() - plan.rows_received()) * row_bytes}},
                     {last}, [p](Stream& s) {
                       p->computed = ep::add_shared_rows(*p->plan, p->computed, *p->groups.etp, s);
                       return device::Event{};
                     });
  graph.add({Lane::inter, "R", {.wire_bytes = plan.rows_received() * row_bytes}}, {last}, [p](Stream& s) {
    auto [data, arrived] = ep::send_to_tokens(*p->plan, std::exchange(p->computed, {}), *p->groups.ep, s);
    p->returned = data;
    return arrived;
  });
  return graph;
}

namespace {

Tensor run_pass(ExpertPass& pass, Device device) {
  schedule::execute(make_expert_graph(pass), device.context());
  return std::move(pass.returned);
}

// What the experts recorded, shared by the node's pullback and its deferred weight tasks.
struct ExpertTape {
  Tape tape;
  Value input, output;
  std::unique_ptr<Replay> replay;

  ExpertTape(const Tape& outer) : tape(outer.stream, outer.policy(), outer.mode(), outer.recompute_norms()) {}
};

}  // namespace

Value route_through_experts(Tape& tape, const Value& x, const Value& weights,
                            std::shared_ptr<const ep::RoutingPlan> plan, const Experts& experts,
                            const ExpertGroups& groups) {
  const auto& k = kernels::kernels(x.device()).permute;
  const int64_t hidden = x.data.dim(1);
  auto inner = std::make_shared<ExpertTape>(tape);

  Tensor permuted = Tensor::empty({plan->rows_to_send(), hidden}, x.data.dtype(), x.device());
  k.gather(tape.stream, permuted, x.data, plan->tokens);
  ExpertPass forward{.plan = plan, .groups = groups, .send = std::move(permuted)};
  forward.compute = [&](Stream&, const Tensor& grouped) {
    inner->input = inner->tape.leaf(grouped);
    inner->output = experts(inner->tape, inner->input, plan->offsets);
    const Tensor result = inner->output.data;
    // Only the ids are needed from here on: the tape holds what the policy decided to hold.
    inner->input.data = inner->output.data = {};
    return result;
  };
  const Tensor returned = run_pass(forward, x.device());
  Tensor out = Tensor::like(x.data);
  k.combine(tape.stream, out, returned, plan->rows, weights.data);

  auto pullback = [&k, plan, groups, inner, shape = x.shape()](Backward& b, const Tensor& dout, const Saved& s) {
    auto [rows_returned, w] = s.get<2>();
    Tensor dreturned = Tensor::like(rows_returned), dweights = Tensor::like(w);
    k.combine_backward(b.stream, dreturned, dweights, dout, rows_returned, plan->rows, w);
    b.accumulate(1, dweights);
    rows_returned = {};
    ExpertPass backward{.plan = plan, .groups = groups, .send = std::move(dreturned)};
    backward.compute = [&](Stream&, const Tensor& dgrouped) {
      inner->output.data = dgrouped;  // for its shape and dtype: the root's own tensor is gone
      const Replay::Root roots[] = {{inner->output, dgrouped}};
      inner->replay = std::make_unique<Replay>(inner->tape, roots, Replay::Weights::delayed);
      inner->output.data = {};
      while (inner->replay->step()) {
      }
      return inner->replay->take_gradient(inner->input);
    };
    const Tensor dpermuted = run_pass(backward, dout.device());
    Tensor dx = Tensor::empty(shape, dout.dtype(), dout.device());
    k.combine(b.stream, dx, dpermuted, plan->rows, {});
    b.accumulate(0, dx);
    for (size_t i = inner->replay->pending_weights(); i > 0; --i)
      b.defer("experts", [inner] { inner->replay->step_weights(); });
  };
  return tape.record("route_through_experts", out, {x, weights}, save(returned, weights.data), std::move(pullback),
                     {experts.parameters(), {}});
}

}  // namespace hexad::moe
