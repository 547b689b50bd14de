// memory_reuse: none. T_DI and T_M are kept for backward by the tape's policy, and for the gradient of the routing
// weights either the slot rows that returned or, where rows are of tokens, T_DO.
#include <utility>

#include "layers/moe/pass/forward.h"
#include "layers/moe/pass/strategies.h"

namespace hexad::moe {

using namespace base;
namespace {

// All tensors that the tape keeps.
struct KeptTensors {
  Tensor returned, weights;
  std::vector<ChunkActivations> experts;  // by chunk; one when they are computed together

  /// f(tensor) of each, always in the same order.
  template <class F>
  void each(const F& f) {
    f(returned), f(weights);
    for (ChunkActivations& a : experts) a.each(f);
  }
};

std::vector<Tensor> tensors_of(KeptTensors kept) {
  std::vector<Tensor> tensors;
  kept.each([&](Tensor& t) { tensors.push_back(std::move(t)); });
  return tensors;
}

KeptTensors kept_bytes(const Saved& saved, size_t computations) {
  KeptTensors kept;
  kept.experts.resize(computations);
  std::vector<Tensor> tensors = saved.all();
  auto next = tensors.begin();
  kept.each([&](Tensor& t) { t = std::move(*next++); });
  require(next == tensors.end(), "[moe] the tape returned other tensors than it was given to save");
  return kept;
}

// Inputs of a chunk's weight gradients.
struct WeightWork {
  ChunkActivations made;
  ExpertGradients gradients;
  Tensor doutput;
};

void add_weight_gradients(const PassCall& call, Stream& s, size_t chunk, const WeightWork& w) {
  call.experts->weight_gradients(s, w.made.inputs, w.made.activations, w.gradients, w.doutput,
                                 call.routes->groups(chunk));
}

// Returns dout of this rank's tokens, divided by how often they are computed.
Tensor shared_gradient(const Routes& routes, const Tensor& dout, Stream& stream) {
  const Tensor own = routes.mine(dout);
  if (routes.copies == 1) return own;
  const auto& k = kernels::kernels(dout.device()).pointwise;
  const Tensor share = Tensor::like(own);
  k.copy(stream, share, own);
  k.scale(stream, share, 1.0 / routes.copies);
  return share;
}

// Turns gradients of weighted sums into gradients of `results`, in place; returns those of the weights [R, 1].
Tensor weigh_gradients(Stream& s, const Rows& gradients, const Tensor& results) {
  const auto& k = kernels::kernels(results.device());
  const Tensor dweights = Tensor::like(gradients.row_weights),
               own = Tensor::empty({results.dim(0)}, Dtype::i64, results.device());
  k.slots.iota(s, own, 0);
  k.permute.row_dots(s, dweights, gradients.values, results);
  k.permute.gather_weighted(s, gradients.values, gradients.values, own, gradients.row_weights);
  return dweights;
}

// Rows of slots: the gradients of all slots' results [S, D]; those of the weights, to dweights [T, K], are taken here,
// from what had returned.
Tensor slot_gradients(Stream& s, const Routes& routes, const Tensor& dtokens, const KeptTensors& kept,
                      const Tensor& weights, const Tensor& dweights) {
  const Tensor dreturned = Tensor::like(kept.returned);
  kernels::kernels(dtokens.device())
      .permute.combine_backward(s, dreturned, dweights, dtokens, kept.returned, routes.plan.indices.rows, weights);
  return dreturned;
}

RowSource slot_rows(const Routes& routes, size_t chunk, const Tensor& of_slots) {
  const ep::PlanIndices& indices = routes.plan.indices;
  const ep::ChunkCounts& counts = routes.counts(chunk);
  if (indices.wire_slots.defined()) return {.values = of_slots, .index = counts.of(indices.wire_slots)};
  return {.values = counts.of(of_slots)};
}

// Gradients of the op's inputs where nobody gathers them, from `returned`, those of slot rows, and `dweights`, those of
// the plan's weights.
void accumulate(const Routes& routes, const Tensor& dout, const Tensor& returned, const Tensor& dweights, Backward& b) {
  const auto& k = kernels::kernels(dout.device());
  const Tensor own_dweights = routes.own(dweights);
  if (routes.copies > 1) k.pointwise.scale(b.stream, own_dweights, routes.copies);
  const Shape own_shape{routes.end - routes.begin, dout.dim(1)};
  if (routes.copies == 1) {
    b.accumulate(0, own_shape, dout.dtype(), [&](const Tensor& dx, const Tensor& so_far) {
      const std::span<const Tensor> addends(&so_far, so_far.defined() ? 1 : 0);
      k.permute.combine(b.stream, dx, returned, routes.own_rows(), {}, addends);
    });
  } else {
    const Tensor dx = Tensor::empty(own_shape, dout.dtype(), dout.device());
    k.permute.combine(b.stream, dx, returned, routes.own_rows(), {}, {});
    k.pointwise.scale(b.stream, dx, routes.copies);
    b.accumulate(0, dx);
  }
  b.accumulate(1, own_dweights);
}

// Runs the backward pass. Delayed weight gradients find their inputs in `work`.
void backward(const PassCall& call, Backward& b, const Tensor& dout, const KeptTensors& kept,
              std::vector<WeightWork>& work) {
  const Routes& routes = *call.routes;
  const bool of_tokens = routes.of_tokens();
  const auto& k = kernels::kernels(dout.device()).permute;
  const ExpertWeights held = hold_weights(routes, *call.experts, kernels::Direction::backward, b.stream);
  Tensor dtokens = shared_gradient(routes, dout, b.stream);
  const Tensor weights = routes.plan_weights(kept.weights, b.stream);
  const Tensor dweights = Tensor::zeros(weights.shape(), weights.dtype(), weights.device());
  const Tensor row_weights = of_tokens ? wire_weights(b.stream, routes.plan, weights) : Tensor{};
  Tensor dslots;  // rows of slots: made with the first chunk that is sent

  PassGraph g(routes, dout, false);
  add_token_gather(g, dtokens);
  // Rows of tokens: their gradients are sent as they are; the weights' are taken at the experts and return beside them.
  const int64_t beside = of_tokens ? 1 : 0;
  Combine combine(g, {.row_weights = beside, .collection = routes.collection ? &*routes.collection : nullptr});
  Dispatch dispatch(g, {.row_weights = beside});
  const int64_t products = call.experts->products();
  ExpertTasks compute(g, call.experts->flops_per_row(), {0, products, 0});
  const auto rows_to_send = [&](Stream& s, size_t c) {
    if (of_tokens) return routes.token_rows(c, dtokens, row_weights);
    if (!dslots.defined()) dslots = slot_gradients(s, routes, dtokens, kept, weights, dweights);
    return slot_rows(routes, c, dslots);
  };
  const auto compute_chunk = [&](Stream& s, size_t c, Rows rows) {
    WeightWork& w = work[c];
    const Tensor dslot_weights = of_tokens ? weigh_gradients(s, rows, std::exchange(w.made.results, {})) : Tensor{};
    w.gradients = held.input_gradients(s, w.made.activations, rows.values, routes.groups(c));
    w.doutput = std::move(rows.values);
    return Rows{std::exchange(w.gradients.rows, {}), dslot_weights};
  };
  PassSteps steps{
      .dispatch =
          [&](size_t c) { dispatch.add(c, g.room_to_dispatch(), [&, c](Stream& s) { return rows_to_send(s, c); }); },
      .beside = [&] { compute.add_shared(call.shared_backward(b)); },
      .compute =
          [&](size_t c) {
            compute.add(c, dispatch.arrive(c), {},
                        [&, c](Stream& s, Rows rows) { return compute_chunk(s, c, std::move(rows)); });
          },
      .combine = [&](size_t c) { combine.add(c, compute.computed(c), dispatch.row_weights(c)); }};
  if (!b.weights_delayed())
    steps.weights = [&](size_t c) {
      compute.add_weight_gradients(c, products,
                                   [&, c](Stream& s) { add_weight_gradients(call, s, c, std::exchange(work[c], {})); });
    };
  g.add_steps(steps);
  const auto finish_weights = [&](Stream& s) {
    if (of_tokens) scatter_by_slot(s, dweights, combine.slot_rows().row_weights, routes.plan.indices.row_slots);
  };
  // Tensor ranks that hold the inputs alike gather their gradients, by chunk or at the end.
  const bool at_end = routes.inputs_alike && !routes.collection;
  Slot<Tensor> own_dx, dx, own_dweights, all_dweights;
  if (routes.inputs_alike) {
    std::vector<TaskId> after = g.returned();
    if (at_end || of_tokens)
      // Not behind weight gradients.
      after = {add_token_combine(g, b.weights_delayed() ? Lane::compute : Lane::copy, [&](Stream& s) {
        finish_weights(s);
        if (!at_end) return;
        own_dx.put(Tensor::like(dtokens));
        k.combine(s, own_dx.read(), combine.slot_rows().values, routes.own_rows(), {}, {});
      })};
    if (at_end) add_share_gather(g, after, "combine.all_gather", dtokens.bytes(), own_dx, dx);
    own_dweights.put(dweights);
    add_share_gather(g, after, "combine.gather_weights", dweights.bytes(), own_dweights, all_dweights);
  }
  g.run("backward");

  if (!routes.computes())
    return b.accumulate(0, routes.inputs_alike ? dout : routes.mine(dout)), b.accumulate(1, kept.weights);
  if (!routes.inputs_alike) {
    finish_weights(b.stream);
    return accumulate(routes, dout, combine.slot_rows().values, dweights, b);
  }
  // Rounded alike whatever the number of chunks: the sum is added to what has come from elsewhere.
  if (!at_end) {
    dx.put(Tensor::empty(dout.shape(), dout.dtype(), dout.device()));
    k.combine(b.stream, dx.read(), combine.collected(), routes.collection->rows, {}, {});
  }
  b.accumulate(0, dx.take());
  b.accumulate(1, all_dweights.take());
}

void backward(const PassCall& call, Backward& b, const Tensor& dout, const Saved& saved) {
  KeptTensors kept = kept_bytes(saved, call.routes->computations());
  std::vector<WeightWork> work;
  for (ChunkActivations& made : kept.experts) work.push_back({.made = std::move(made), .gradients = {}, .doutput = {}});
  backward(call, b, dout, kept, work);
  if (!b.weights_delayed()) return;
  for (size_t c = 0; c < work.size(); ++c)
    b.defer([call, c, w = std::move(work[c]), &stream = b.stream]() mutable {
      add_weight_gradients(call, stream, c, std::exchange(w, {}));
    });
}

}  // namespace

Value keeping_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call, SharedWork shared) {
  KeptTensors kept;
  kept.experts.resize(call.routes->computations());
  ForwardResult result = forward(*call.routes, *call.experts, x.data, weights.data,
                                 {.all = tape.recording() ? &kept.experts : nullptr}, std::move(shared), tape.stream);
  if (call.routes->of_tokens()) result.returned = {};
  kept.returned = std::move(result.returned);
  kept.weights = weights.data;
  return tape.record("moe_pass", result.out, {x, weights}, tensors_of(std::move(kept)),
                     [call](Backward& b, const Tensor& dout, const Saved& saved) { backward(call, b, dout, saved); },
                     {call.experts->parameters(), {}});
}

}  // namespace hexad::moe
