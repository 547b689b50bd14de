// MPMoE's S1 to S4: T_DI and T_M are not kept for backward. T_DI is offloaded (S1, S3) or communicated again (S2, S4),
// T_M offloaded (S1, S2) or computed again (S3, S4). Chunks of tokens share two sets of buffers.
//
// The tape keeps x, the weights, and what is offloaded. Results of slots are not kept either: the gradient of a slot's
// weight, the product of its result with dout, is computed by its expert as the product of T_M with its own gradient,
// and returns beside the row.
#include <utility>

#include "layers/moe/pass/memory_reuse.h"
#include "layers/moe/pass/row_weights.h"

namespace hexad::moe {

using namespace autograd;
using namespace base;
namespace {

// What of a chunk's ChunkActivations is in offload memory; null: it is not there.
struct OffloadCopies {
  std::shared_ptr<SavedTensor> inputs, gate_up;
};

// Of the op's inputs.
struct Gradients {
  Tensor x, weights;
};

class OffloadOrRecomputeBackward final : public PassWork {
 public:
  OffloadOrRecomputeBackward(const PassCall& call, const Tensor& dout, const Tensor& x, const Tensor& weights,
                             std::vector<OffloadCopies>& copies, Stream& stream)
      : call_(call),
        dout_(dout),
        x_(x),
        copies_(copies),
        experts_(call.hold_weights(stream, kernels::Direction::backward)),
        row_weights_(wire_weights(stream, call.plan(), weights)),
        fetched_(copies.size()),
        gradients_{Tensor::like(dout), Tensor::zeros(weights.shape(), weights.dtype(), weights.device())} {}

  RowSource pack(Stream&, size_t chunk) override { return call_.token_rows(chunk, dout_, row_weights_); }
  RowSource pack_inputs(Stream&, size_t chunk) override { return call_.token_rows(chunk, x_, {}); }

  void fetch(Stream& s, size_t chunk) override {
    const OffloadCopies copies = std::exchange(copies_[chunk], {});
    if (copies.inputs) fetched_[chunk].inputs = copies.inputs->get(s);
    if (copies.gate_up) fetched_[chunk].activations.gate_up = copies.gate_up->get(s);
  }

  Rows compute(Stream& s, size_t chunk, Rows rows, Tensor inputs) override {
    ChunkActivations made = std::exchange(fetched_[chunk], {});
    if (inputs.defined()) made.inputs = inputs;
    if (!made.activations.defined()) made.activations = experts_.before_activation(s, made.inputs, call_.groups(chunk));
    auto [drows, drow_weights] = call_.experts->backward_weighted(s, experts_, made.inputs, std::move(made.activations),
                                                                  rows.values, rows.row_weights, call_.groups(chunk));
    return Rows{drows, drow_weights.reshape({-1, 1})};
  }

  void accept(Stream& s, size_t chunk, Rows slots) override {
    const ChunkTokens& t = call_.tokens[chunk];
    kernels::kernels(dout_.device())
        .permute.combine(s, gradients_.x.slice(0, t.begin, t.end), slots.values, t.rows, {}, {});
    const ep::ChunkCounts& counts = call_.counts(chunk);
    const Tensor row_slots = call_.plan().indices.row_slots.slice(0, counts.slots_begin, counts.slots_end);
    put_by_slot(s, gradients_.weights, slots.row_weights, row_slots);
  }

  /// After the pass.
  Gradients gradients() const { return gradients_; }

 private:
  const PassCall& call_;
  const Tensor &dout_, &x_;
  std::vector<OffloadCopies>& copies_;
  const ExpertWeights experts_;
  const Tensor row_weights_;
  std::vector<ChunkActivations> fetched_;
  const Gradients gradients_;
};

class OffloadOrRecompute final : public MemoryReuse {
 public:
  explicit OffloadOrRecompute(std::shared_ptr<const PassCall> call)
      : call_(std::move(call)), made_(call_->tokens.size()), copies_(call_->tokens.size()) {}

  void describe_forward(MoePass& pass) const override {
    pass.bounded = true;
    pass.reuse.offloaded_row_bytes = offloaded_row_bytes(pass);
  }

  void keep(size_t chunk, ChunkActivations made) override {
    if (inputs_offloaded()) made_[chunk].inputs = std::move(made.inputs);
    // Its product is cheaper to compute than to move.
    if (activations_offloaded()) made_[chunk].activations.gate_up = std::move(made.activations.gate_up);
  }

  void offload(Stream& s, size_t chunk) override {
    const ChunkActivations made = std::exchange(made_[chunk], {});
    const auto copy = [&](const Tensor& t) { return t.defined() ? policy_->save(t, s) : nullptr; };
    copies_[chunk] = {.inputs = copy(made.inputs), .gate_up = copy(made.activations.gate_up)};
  }

  // Offloaded inputs make x itself dispensable.
  std::vector<Tensor> save(const Tensor& x, const Tensor& weights, Tensor) override {
    return autograd::save(inputs_offloaded() ? Tensor{} : x, weights);
  }

  void backward(Backward& b, const Tensor& dout, const Saved& saved) override {
    const auto [x, weights] = saved.get<2>();
    const Gradients g = run(b, dout, x, weights);
    b.accumulate(0, g.x);
    b.accumulate(1, g.weights);
  }

 private:
  Gradients run(Backward& b, const Tensor& dout, const Tensor& x, const Tensor& weights) {
    const PassCall& call = *call_;
    OffloadOrRecomputeBackward work(call, dout, x, weights, copies_, b.stream);
    MoePass pass = call.describe(dout);
    pass.bounded = true;
    pass.rows.weights_out = pass.rows.weights_back = 1;
    pass.reuse.inputs_again = !inputs_offloaded();
    pass.reuse.fetched_row_bytes = offloaded_row_bytes(pass);
    const int64_t products = call.experts->products();
    pass.experts.products = {activations_offloaded() ? 0 : products - 1, products, products};
    pass.shared = call.shared_backward(b);
    PassBuffers buffers;
    call.run(pass, work, buffers, "backward");
    return work.gradients();
  }
  bool inputs_offloaded() const { return offloads_inputs(call_->route.schedule.memory_reuse); }
  bool activations_offloaded() const { return offloads_activations(call_->route.schedule.memory_reuse); }
  int64_t offloaded_row_bytes(const MoePass& pass) const {
    const int64_t activations = activations_offloaded() ? call_->experts->activation_width() : 0;
    return ((inputs_offloaded() ? pass.rows.width : 0) + activations) * size_of(pass.rows.dtype);
  }

  const std::shared_ptr<const PassCall> call_;
  std::vector<ChunkActivations> made_;  // by chunk, from Ci to Oi
  std::vector<OffloadCopies> copies_;   // by chunk, from Oi to Fi
  const std::unique_ptr<SavePolicy> policy_ = offload_policy(0);
};

}  // namespace

std::shared_ptr<MemoryReuse> offload_or_recompute(std::shared_ptr<const PassCall> call) {
  const TokenRoutes& routes = call->routes;
  require(!routes.gatherers && !routes.collection && routes.copies == 1,
          "[moe] restored activations of tokens that several ranks hold");
  return std::make_shared<OffloadOrRecompute>(std::move(call));
}

}  // namespace hexad::moe
