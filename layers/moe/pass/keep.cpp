// memory_reuse: none. T_DI and T_M are kept for backward by the tape's policy, and for the gradient of the routing
// weights either the slot rows that returned or, where rows are of tokens, T_DO.
#include <utility>

#include "layers/moe/pass/memory_reuse.h"
#include "layers/moe/pass/row_weights.h"
#include "parallel/comm/rows.h"

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

// What the experts of a chunk leave for their weight gradients.
struct WeightWork {
  ChunkActivations made;
  ExpertGradients gradients;
  Tensor doutput;
};

void add_weight_gradients(const PassCall& call, Stream& s, size_t chunk, const WeightWork& w) {
  call.experts->weight_gradients(s, w.made.inputs, w.made.activations, w.gradients, w.doutput, call.groups(chunk));
}

// dout of the tokens that this rank sends; of tokens that are computed several times, each computation's share of it.
Tensor shared_gradient(const TokenRoutes& routes, const Tensor& dout, Stream& stream) {
  const Tensor own = dout.slice(0, routes.begin, routes.end);
  if (routes.copies == 1) return own;
  const auto& k = kernels::kernels(dout.device()).pointwise;
  const Tensor share = Tensor::like(own);
  k.copy(stream, share, own);
  k.scale(stream, share, 1.0 / routes.copies);
  return share;
}

// Gradients of the sums to which `results` were weighed [R, 1] become those of the results; returns the weights'.
Tensor weigh_gradients(Stream& s, const Rows& gradients, const Tensor& results) {
  const auto& k = kernels::kernels(results.device());
  const Tensor dweights = Tensor::like(gradients.row_weights),
               own = Tensor::empty({results.dim(0)}, Dtype::i64, results.device());
  k.slots.iota(s, own, 0);
  k.permute.row_dots(s, dweights, gradients.values, results);
  k.permute.gather_weighted(s, gradients.values, gradients.values, own, gradients.row_weights);
  return dweights;
}

class KeepBackward final : public PassWork {
 public:
  KeepBackward(const PassCall& call, const Tensor& dout, const KeptTensors& kept, std::vector<WeightWork>& work,
               Stream& stream)
      : call_(call),
        returned_(kept.returned),
        work_(work),
        experts_(call.hold_weights(stream, kernels::Direction::backward)),
        dout_(shared_gradient(call.routes, dout, stream)),
        weights_(call.plan_weights(kept.weights, stream)),
        dweights_(Tensor::zeros(weights_.shape(), weights_.dtype(), weights_.device())) {
    if (call.of_tokens()) row_weights_ = wire_weights(stream, call.plan(), weights_);
  }

  void gather(Stream& s) override { dout_ = comm::all_gather_rows(dout_, *call_.routes.gatherers, s); }

  // Rows of tokens: their gradients are sent as they are; the weights' are taken at the experts and return beside them.
  RowSource pack(Stream& s, size_t chunk) override {
    return call_.of_tokens() ? call_.token_rows(chunk, dout_, row_weights_) : slot_gradients(s, chunk);
  }

  Rows compute(Stream& s, size_t chunk, Rows rows, Tensor) override {
    WeightWork& w = work_[chunk];
    const Tensor dweights = call_.of_tokens() ? weigh_gradients(s, rows, std::exchange(w.made.results, {})) : Tensor{};
    w.gradients = experts_.input_gradients(s, w.made.activations, rows.values, call_.groups(chunk));
    w.doutput = std::move(rows.values);
    return Rows{std::exchange(w.gradients.rows, {}), dweights};
  }

  void weight_gradients(Stream& s, size_t chunk) override {
    const WeightWork w = std::move(work_[chunk]);
    add_weight_gradients(call_, s, chunk, w);
  }

  /// [T, K] of the plan's tokens, after the pass.
  Tensor weight_gradients_of_slots(Stream& s, const PassBuffers& buffers) const {
    if (call_.of_tokens()) put_by_slot(s, dweights_, buffers.returned_row_weights, call_.plan().indices.row_slots);
    return dweights_;
  }

 private:
  // Rows of slots: the gradient of each slot's result is sent, and the weights' is taken here, from what had returned.
  RowSource slot_gradients(Stream& s, size_t chunk) {
    const ep::PlanIndices& indices = call_.plan().indices;
    if (!dreturned_.defined()) {
      dreturned_ = Tensor::like(returned_);
      kernels::kernels(dout_.device())
          .permute.combine_backward(s, dreturned_, dweights_, dout_, returned_, indices.rows, weights_);
    }
    const ep::ChunkCounts& counts = call_.counts(chunk);
    if (indices.wire_slots.defined()) return {.values = dreturned_, .index = counts.of(indices.wire_slots)};
    return {.values = counts.of(dreturned_)};
  }

  const PassCall& call_;
  const Tensor& returned_;
  std::vector<WeightWork>& work_;
  const ExpertWeights experts_;
  Tensor dout_, dreturned_;
  const Tensor weights_, dweights_;
  Tensor row_weights_;
};

// Gradients of the op's inputs, from `returned`, those of slot rows, and `dweights`, those of the plan's weights.
void accumulate(const PassCall& call, const Tensor& dout, const Tensor& returned, const Tensor& dweights, Backward& b) {
  const TokenRoutes& routes = call.routes;
  const auto& k = kernels::kernels(dout.device());
  const int64_t tokens = routes.end - routes.begin;
  const Tensor own_dweights = dweights.slice(0, routes.gathered_begin(), routes.gathered_begin() + tokens);
  if (routes.copies > 1) k.pointwise.scale(b.stream, own_dweights, routes.copies);
  const Shape own_shape{tokens, dout.dim(1)};
  if (routes.copies == 1 && !routes.collection) {
    b.accumulate(0, own_shape, dout.dtype(), [&](const Tensor& dx, const Tensor& so_far) {
      const std::span<const Tensor> addends(&so_far, so_far.defined() ? 1 : 0);
      k.permute.combine(b.stream, dx, returned, routes.own_rows(), {}, addends);
    });
    b.accumulate(1, own_dweights);
    return;
  }
  const Tensor dx = Tensor::empty(own_shape, dout.dtype(), dout.device());
  k.permute.combine(b.stream, dx, returned, routes.own_rows(), {}, {});
  if (routes.copies > 1) k.pointwise.scale(b.stream, dx, routes.copies);
  const auto all = [&](const Tensor& own) {
    return routes.collection ? comm::all_gather_rows(own, *routes.collection->group, b.stream) : own;
  };
  b.accumulate(0, all(dx));
  b.accumulate(1, all(own_dweights));
}

class Keep final : public MemoryReuse {
 public:
  explicit Keep(std::shared_ptr<const PassCall> call) : call_(std::move(call)) {
    kept_.experts.resize(call_->computations());
  }

  void describe_forward(MoePass&) const override {}

  void keep(size_t chunk, ChunkActivations made) override {
    if (!call_->of_tokens()) made.results = {};
    kept_.experts[chunk] = std::move(made);
  }

  void offload(Stream&, size_t) override { fail_invariant("[moe] kept activations are not offloaded"); }

  std::vector<Tensor> save(const Tensor&, const Tensor& weights, Tensor returned) override {
    if (!call_->of_tokens()) kept_.returned = std::move(returned);
    kept_.weights = weights;
    std::vector<Tensor> tensors;
    kept_.each([&](Tensor& t) { tensors.push_back(std::exchange(t, {})); });
    return tensors;
  }

  void backward(Backward& b, const Tensor& dout, const Saved& saved) override {
    KeptTensors kept;
    kept.experts.resize(call_->computations());
    {
      std::vector<Tensor> tensors = saved.all();
      auto next = tensors.begin();
      kept.each([&](Tensor& t) { t = std::move(*next++); });
      require(next == tensors.end(), "[moe] the tape gave back other tensors than it was given");
    }
    std::vector<WeightWork> work;
    for (ChunkActivations& made : kept.experts)
      work.push_back({.made = std::move(made), .gradients = {}, .doutput = {}});
    run(b, dout, kept, work);
    if (!b.weights_delayed()) return;
    for (size_t c = 0; c < work.size(); ++c)
      b.defer([call = call_, c, w = std::move(work[c]), &stream = b.stream]() mutable {
        add_weight_gradients(*call, stream, c, std::exchange(w, {}));
      });
  }

 private:
  void run(Backward& b, const Tensor& dout, const KeptTensors& kept, std::vector<WeightWork>& left) const {
    const PassCall& call = *call_;
    KeepBackward work(call, dout, kept, left, b.stream);
    MoePass pass = call.describe(dout);
    if (call.of_tokens()) pass.rows.weights_out = pass.rows.weights_back = 1;
    const int64_t products = call.experts->products();
    pass.experts.products = {0, products, 0};
    if (!b.weights_delayed()) pass.experts.weight_products = products;
    pass.shared = call.shared_backward(b);
    PassBuffers buffers;
    call.run(pass, work, buffers, "backward");
    if (call.computes())
      return accumulate(call, dout, buffers.returned, work.weight_gradients_of_slots(b.stream, buffers), b);
    b.accumulate(0, dout), b.accumulate(1, kept.weights);
  }

  const std::shared_ptr<const PassCall> call_;
  KeptTensors kept_;  // during forward
};

}  // namespace

std::shared_ptr<MemoryReuse> keep_activations(std::shared_ptr<const PassCall> call) {
  return std::make_shared<Keep>(std::move(call));
}

}  // namespace hexad::moe
