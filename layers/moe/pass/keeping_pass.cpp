// Pass for memory_reuse: none. With other values of memory_reuse, this pass is used in evaluation and in recomputed
// blocks (moe_pass.cpp). A recording tape keeps the experts' inputs T_DI and activations T_M for backward. For the
// gradient of the routing weights, the tape also keeps the returned slot rows or, with `rows: token`, the experts'
// results T_DO. The tape keeps neither slot rows nor T_DO nor the output of the activation if the experts multiply by
// the routing weights (experts_apply_weights).
#include <utility>

#include "layers/moe/pass/forward.h"
#include "layers/moe/pass/pass_call.h"
#include "layers/moe/routes/local_weights.h"
#include "layers/moe/routes/token_rows.h"

namespace hexad::moe {

using namespace base;
namespace {

// All tensors that the tape keeps.
struct KeptTensors {
  Tensor slot_results;  // [S, D]; defined if backward needs the slot rows for the gradient of the weights
  Tensor weights;       // [T, K]; undefined if experts_apply_weights(), because ExpertActivations then has the weights
  std::vector<ChunkActivations> experts;  // one entry per chunk, or a single entry if chunks are computed together

  /// Calls f(tensor) for each tensor, always in the same order.
  template <class F>
  void each(const F& f) {
    f(slot_results), f(weights);
    for (ChunkActivations& a : experts) a.each(f);
  }
};

std::vector<Tensor> tensors_of(KeptTensors kept) {
  std::vector<Tensor> tensors;
  kept.each([&](Tensor& t) { tensors.push_back(std::move(t)); });
  return tensors;
}

void pull_back(const PassCall& call, Backward& b, const Tensor& dout, const Saved& saved);

}  // namespace

Value keeping_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call,
                   const std::vector<Value>& addends, const SharedWork& shared) {
  KeptTensors kept;
  kept.experts.resize(call.routes->computations());
  ForwardResult result = forward(*call.routes, *call.experts, x.data, weights.data,
                                 {.all = tape.recording() ? &kept.experts : nullptr}, addends, shared, tape.stream);
  const bool weighted = experts_apply_weights(*call.routes, *call.experts);
  if (!call.routes->rows_are_tokens() && !weighted) kept.slot_results = std::move(result.slot_results);
  if (!weighted) kept.weights = weights.data;
  return call.record(tape, result.out, x, weights, addends, tensors_of(std::move(kept)),
                     [call](Backward& b, const Tensor& dout, const Saved& saved) { pull_back(call, b, dout, saved); });
}

namespace {

KeptTensors kept_from(const Saved& saved, size_t computations) {
  KeptTensors kept;
  kept.experts.resize(computations);
  std::vector<Tensor> tensors = saved.all();
  size_t expected = 0;
  kept.each([&](Tensor&) { ++expected; });
  require(tensors.size() == expected, "[moe] the tape returned ", tensors.size(), " saved tensors; expected ",
          expected);
  auto next = tensors.begin();
  kept.each([&](Tensor& t) { t = std::move(*next++); });
  return kept;
}

// Inputs of a chunk's weight gradients.
struct WeightWork {
  ChunkActivations made;
  ExpertGradients gradients;
  Tensor doutput;
};

void compute_weight_gradients(const PassCall& call, Stream& s, size_t chunk, const WeightWork& w) {
  call.experts->weight_gradients(s, w.made.inputs, w.made.activations, w.gradients, w.doutput,
                                 call.routes->groups(chunk));
}

// Rows of gradients that a backward pass sends to the experts. `weigh` and `take_dweights` may be empty. The functions
// share the tensors that they use, and refer to the Routes, which must outlive the functions.
struct GradientRows {
  int64_t row_weights = 0;  // number of weights sent with each slot of a row, in both directions
  // Returns the rows that a chunk sends. In rows_of_slots(), the first call computes the gradients of all slots, and
  // writes the gradients of the routing weights.
  std::function<RowSource(Stream&, size_t chunk)> to_send;
  // Multiplies the arrived gradients in place by the routing weights. The products are the gradients of the experts'
  // `results`. Returns the gradients of the routing weights, which are sent back with the rows.
  std::function<Tensor(Stream&, const Rows& arrived, const Tensor& results)> weigh{};
  // Writes the gradients of the routing weights, from the slot rows or from values that the experts computed. Called
  // once all rows have returned.
  std::function<void(Stream&, const Rows& slot_rows)> take_dweights{};
};

// Returns rows of slots. The row of a slot is the gradient of its result: the gradient of the slot's token times the
// slot's weight. The rows of all slots are computed when the first chunk is packed, because tasks may have to gather
// `dtokens` and `weights` first. The kernel that computes them also reads the slot rows that returned in forward, and
// writes the gradients of the weights to `dweights`.
GradientRows rows_of_slots(const Routes& routes, const Handoff<Tensor>& dtokens, const Tensor& slot_results,
                           const Handoff<Tensor>& weights, const Tensor& dweights) {
  return {.to_send = [&routes, dtokens, slot_results, weights, dweights, dslots = Handoff<Tensor>()](
                         Stream& s, size_t chunk) mutable {
    if (!dslots.read().defined()) {
      dslots.put(Tensor::like(slot_results));
      kernels_of(slot_results)
          .permute.combine_backward(s, dslots.read(), dweights, dtokens.read(), slot_results, routes.plan.indices.rows,
                                    routes.tokens_of_slot_rows(), weights.read());
    }
    // Sends the chunk's part of dslots. Some routing plans send a slot row to several ranks
    // (RoutingIndices::wire_slots).
    return routes.sent_slots(chunk, dslots.read());
  }};
}

// Returns rows of tokens. The gradients of tokens are sent unchanged, together with the weights of their slots. The
// rank of each expert multiplies these gradients by the weights. It also computes the gradients of the weights, which
// return with the rows.
GradientRows rows_of_tokens(const Routes& routes, const Handoff<Tensor>& dtokens, const Handoff<Tensor>& weights,
                            const Tensor& dweights) {
  return {.row_weights = 1,
          .to_send =
              [&routes, dtokens, row_weights = WireWeights(weights)](Stream& s, size_t chunk) mutable {
                return routes.sent_rows(chunk, dtokens.read(), row_weights.get(s, routes.plan));
              },
          .weigh =
              [](Stream& s, const Rows& arrived, const Tensor& results) {
                const auto& k = kernels_of(results);
                const Tensor dots = Tensor::like(arrived.row_weights),
                             own = Tensor::empty({results.dim(0)}, Dtype::i64, results.device());
                k.slots.iota(s, own, 0);
                k.permute.row_dots(s, dots, arrived.values, results);
                k.permute.gather_weighted(s, arrived.values, arrived.values, own, arrived.row_weights);
                return dots;
              },
          .take_dweights =
              [&routes, dweights](Stream& s, const Rows& slot_rows) {
                scatter_by_slot(s, dweights, slot_rows.row_weights, routes.plan.indices.row_slots);
              }};
}

// Returns rows of slots for experts that multiply by the routing weights. The row of a slot is the gradient of its
// token. The experts compute `computed_dweights`, the gradients of the weights.
GradientRows rows_to_weight(const Routes& routes, const Handoff<Tensor>& dtokens, const Tensor& computed_dweights,
                            const Tensor& dweights) {
  return {.to_send = [&routes, dtokens](Stream&, size_t chunk) { return routes.sent_rows(chunk, dtokens.read(), {}); },
          .take_dweights = [&routes, computed_dweights, dweights](
                               Stream& s,
                               const Rows&) { scatter_weights_to_slots(s, dweights, routes, computed_dweights); }};
}

// Accumulates the gradients of the op's inputs on ranks that do not gather these gradients. `combine` has the gradients
// of the slot rows. `dweights` are the gradients of the routing plan's weights. The gradient of a token is the sum over
// its slots. Both gradients are multiplied by Routes::copies, the number of times that each token is computed. Later,
// the router's pullbacks receive the gradients of the weights and add to the gradient of x.
void accumulate(const Routes& routes, const Tensor& dout, const Combine& combine, const Tensor& dweights, Backward& b) {
  const auto& pointwise = kernels_of(dout).pointwise;
  const Tensor own_dweights = routes.own_rows_of_plan(dweights);
  if (routes.copies > 1) pointwise.scale(b.stream, own_dweights, routes.copies);
  const Shape own_shape{routes.end - routes.begin, dout.dim(1)};
  if (routes.copies == 1) {
    b.accumulate(0, own_shape, dout.dtype(), [&](const Tensor& dx, const Tensor& so_far) {
      combine.sum_own_slots(b.stream, dx, {}, std::span(&so_far, so_far.defined() ? 1 : 0));
    });
  } else {
    const Tensor dx = Tensor::empty(own_shape, dout.dtype(), dout.device());
    combine.sum_own_slots(b.stream, dx, {}, {});
    pointwise.scale(b.stream, dx, routes.copies);
    b.accumulate(0, dx);
  }
  b.accumulate(1, own_dweights);
}

// Runs the pass `g` for tensor-parallel ranks that hold the same inputs. First adds the tasks that sum and gather the
// gradients of the inputs. The rows of x's gradients are gathered by chunk or set and then summed if there is a
// RowCollection. Otherwise, the sums are gathered at the end. Finally accumulates the gradients on the tape.
void run_kept_for_sharers(PassGraph& g, const Combine& combine, const GradientRows& gradients, const Tensor& dtokens,
                          const Tensor& dout, const Tensor& dweights, Backward& b) {
  const bool at_end = !g.routes.collection;
  Handoff<Tensor> own_dx, dx, own_dweights, all_dweights;
  // This task runs on the copy lane if weight gradients are on the compute lane, so that the task does not wait for
  // them.
  const TaskId summed = add_token_combine(g, b.weights_delayed() ? Lane::compute : Lane::copy, [&](Stream& s) {
    if (gradients.take_dweights) gradients.take_dweights(s, combine.slot_rows());
    Handoff<Tensor>& sums = at_end ? own_dx : dx;
    sums.put(Tensor::like(at_end ? dtokens : dout));
    if (at_end)
      combine.sum_own_slots(s, sums.read(), {}, {});
    else
      combine.sum_collected_slots(s, sums.read(), {}, {});
  });
  if (at_end) add_share_gather(g, {summed}, "combine.all_gather", dtokens.bytes(), own_dx, dx);
  own_dweights.put(dweights);
  // take_dweights() runs in the task combine.tokens. Without take_dweights(), `dweights` are complete before rows
  // return.
  const bool weights_wait = at_end || gradients.take_dweights;
  add_share_gather(g, weights_wait ? std::vector{summed} : g.return_tasks(), "combine.gather_weights", dweights.bytes(),
                   own_dweights, all_dweights);
  g.run(PassKind::backward);

  // The sums in `dx` are rounded before other gradients are added to them. The result therefore does not depend on the
  // number of chunks.
  b.accumulate(0, dx.take());
  b.accumulate(1, all_dweights.take());
}

// Runs the backward pass with the kept activations, which `work` contains. Also stores the remaining inputs of the
// weight gradients in `work` if weight gradients are delayed.
void backward_with_kept(const PassCall& call, Backward& b, const Tensor& dout, const KeptTensors& kept,
                        std::vector<WeightWork>& work) {
  const Routes& routes = *call.routes;
  ExpertWeights expert_weights = call.experts->hold(b.stream, kernels::Direction::backward);
  Tensor own_dtokens = gradient_per_copy(routes, dout, b.stream);
  const Dtype acc = accumulator_dtype(dout.dtype());
  const bool weighted = experts_apply_weights(routes, *call.experts);  // false if the experts are on several ranks
  // GradientRows::take_dweights writes `dweights`, except for dropped slots. If take_dweights is empty
  // (rows_of_slots()), to_send writes all of `dweights`.
  const Tensor dweights = Tensor::empty(routes.plan.indices.rows.shape(), acc, dout.device());
  if (weighted || routes.rows_are_tokens()) dweights.fill_bytes(0, b.stream);
  const Tensor computed_dweights =
      weighted ? Tensor::empty({routes.plan.counts.slots()}, acc, dout.device()) : Tensor{};

  PassGraph g(routes, dout, Buffers::own);
  ShadowTasks shadows(g, *call.experts);
  const TaskId shadows_received = shadows.add_broadcast(expert_weights);
  const Handoff<Tensor> dtokens = add_token_gather(g, std::move(own_dtokens));
  GradientRows gradients;
  if (weighted)
    gradients = rows_to_weight(routes, dtokens, computed_dweights, dweights);
  else if (routes.rows_are_tokens())
    gradients = rows_of_tokens(routes, dtokens, add_weight_gather(g, kept.weights), dweights);
  else
    gradients = rows_of_slots(routes, dtokens, kept.slot_results, add_weight_gather(g, kept.weights), dweights);
  Combine combine(
      g, {.row_weights = gradients.row_weights, .collection = routes.collection ? &*routes.collection : nullptr});
  Dispatch dispatch(g, {.row_weights = gradients.row_weights});
  const int64_t products = call.experts->products();
  ExpertTasks expert_tasks(g, call.experts->flops_per_row(), {0, products, 0});
  const auto compute_chunk = [&](Stream& s, size_t c, Rows rows) {
    WeightWork& w = work[c];
    const Tensor beside = gradients.weigh ? gradients.weigh(s, rows, std::exchange(w.made.results, {})) : Tensor{};
    w.gradients = expert_weights.input_gradients(s, w.made.activations, rows.values, routes.groups(c),
                                                 part_of_computation(routes, computed_dweights, c));
    w.doutput = std::move(rows.values);
    return Rows{std::exchange(w.gradients.rows, {}), beside};
  };
  PassSteps steps{.dispatch =
                      [&](size_t c) {
                        dispatch.add(c, g.room_to_dispatch(), [&, c](Stream& s) { return gradients.to_send(s, c); });
                      },
                  .shared_experts = [&] { expert_tasks.add_shared(call.shared_backward(b)); },
                  .compute =
                      [&](size_t c) {
                        expert_tasks.add(c, dispatch.add_arrival(c), {shadows_received},
                                         [&, c](Stream& s, Rows rows) { return compute_chunk(s, c, std::move(rows)); });
                      },
                  .combine = [&](size_t c) { combine.add(c, expert_tasks.computed(c), dispatch.row_weights(c)); }};
  // The gradients of shadows are not delayed, because a task of the pass reduces them.
  std::vector<TaskId> shadow_gradients;
  const bool delayed = b.weights_delayed();
  if (!delayed || shadows.gradients())
    steps.weight_gradients = [&](size_t c) {
      if (shadows.gradients())
        shadow_gradients.push_back(expert_tasks.add_shadow_gradients(c, products, [&, c](Stream& s) {
          const WeightWork& w = work[c];
          call.experts->shadow_gradients(s, w.made.inputs, w.made.activations, w.gradients, w.doutput, routes.groups(c),
                                         *shadows.gradients());
        }));
      if (!delayed)
        expert_tasks.add_weight_gradients(
            c, products, [&, c](Stream& s) { compute_weight_gradients(call, s, c, std::exchange(work[c], {})); });
    };
  g.add_steps(steps);
  shadows.add_reduction(std::move(shadow_gradients));
  if (routes.inputs_alike) return run_kept_for_sharers(g, combine, gradients, dtokens.read(), dout, dweights, b);
  g.run(PassKind::backward);
  if (gradients.take_dweights) gradients.take_dweights(b.stream, combine.slot_rows());
  accumulate(routes, dout, combine, dweights, b);
}

// Pullback of the op that keeping_pass() records.
void pull_back(const PassCall& call, Backward& b, const Tensor& dout, const Saved& saved) {
  KeptTensors kept = kept_from(saved, call.routes->computations());
  std::vector<WeightWork> work;
  for (ChunkActivations& made : kept.experts) work.push_back({.made = std::move(made), .gradients = {}, .doutput = {}});
  backward_with_kept(call, b, dout, kept, work);
  if (!b.weights_delayed()) return;
  for (size_t c = 0; c < work.size(); ++c)
    b.defer([call, c, w = std::move(work[c]), &stream = b.stream]() mutable {
      compute_weight_gradients(call, stream, c, std::exchange(w, {}));
    });
}

}  // namespace
}  // namespace hexad::moe
