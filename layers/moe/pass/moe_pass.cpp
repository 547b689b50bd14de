#include "layers/moe/pass/moe_pass.h"

#include <utility>

#include "layers/moe/pass/memory_reuse.h"
#include "layers/moe/pass/row_weights.h"
#include "parallel/comm/rows.h"

namespace hexad::moe {
namespace {

class ForwardWork final : public PassWork {
 public:
  /// `reuse`: who gets what the experts make; null: nobody.
  ForwardWork(const PassCall& call, const MoePass& pass, const Tensor& x, const Tensor& weights, MemoryReuse* reuse,
              Stream& stream)
      : call_(call),
        weights_(weights),
        reuse_(reuse),
        experts_(call.hold_weights(stream, kernels::Direction::forward)),
        out_(pass.bounded ? Tensor::like(x) : Tensor{}),
        tokens_(x.slice(0, call.routes.begin, call.routes.end)) {
    if (call.of_tokens()) row_weights_ = wire_weights(stream, call.plan(), call.plan_weights(weights, stream));
  }

  void gather(Stream& s) override { tokens_ = comm::all_gather_rows(tokens_, *call_.routes.gatherers, s); }

  RowSource pack(Stream&, size_t chunk) override { return call_.token_rows(chunk, tokens_, row_weights_); }

  Rows compute(Stream& s, size_t chunk, Rows rows, Tensor) override {
    ExpertActivations activations = experts_.activations(s, rows.values, call_.groups(chunk));
    Rows results{experts_.output(s, activations, call_.groups(chunk))};
    if (reuse_)
      reuse_->keep(
          chunk, {.inputs = std::move(rows.values), .activations = std::move(activations), .results = results.values});
    return results;
  }

  void offload(Stream& s, size_t chunk) override { reuse_->offload(s, chunk); }

  void accept(Stream& s, size_t chunk, Rows slots) override {
    const ChunkTokens& t = call_.tokens[chunk];
    const Tensor weights = call_.of_tokens() ? Tensor{} : weights_.slice(0, t.begin, t.end);
    kernels::kernels(out_.device())
        .permute.combine(s, out_.slice(0, t.begin, t.end), slots.values, t.rows, weights, {});
  }

  /// Of a bounded pass.
  const Tensor& out() const { return out_; }

 private:
  const PassCall& call_;
  const Tensor& weights_;
  MemoryReuse* reuse_;
  const ExpertWeights experts_;
  const Tensor out_;
  Tensor tokens_, row_weights_;
};

// T_O [T, D] from all slot rows that returned to this rank, or were gathered from the tensor ranks.
Tensor combine_slots(const PassCall& call, const PassBuffers& buffers, const Tensor& x, const Tensor& weights,
                     Stream& stream) {
  const TokenRoutes& routes = call.routes;
  const auto& k = kernels::kernels(x.device()).permute;
  const Tensor out = Tensor::like(x), unweighed = call.of_tokens() ? Tensor{} : weights;
  if (!call.computes()) return out;
  if (routes.collection)
    k.combine(stream, out, buffers.collected, routes.collected_rows, unweighed, {});
  else
    k.combine(stream, out, buffers.returned, routes.own_rows(), unweighed, {});
  return out;
}

struct Result {
  Tensor out, returned;
};

Result forward(const PassCall& call, const Tensor& x, const Tensor& weights, MemoryReuse& reuse, bool recording,
               SharedWork shared, Stream& stream) {
  MoePass pass = call.describe(x);
  pass.experts.products = {call.experts->products(), 0, 0};
  pass.rows.weights_out = call.of_tokens() ? 1 : 0;
  pass.rows.weighs = call.of_tokens();
  if (call.routes.collection) pass.collection = &*call.routes.collection;
  pass.shared = std::move(shared);
  reuse.describe_forward(pass);
  ForwardWork work(call, pass, x, weights, recording ? &reuse : nullptr, stream);
  PassBuffers buffers;
  call.run(pass, work, buffers, "forward");
  if (pass.bounded) return {work.out(), {}};
  Tensor out = combine_slots(call, buffers, x, weights, stream);
  return {std::move(out), std::move(buffers.returned)};
}

}  // namespace

Value moe_pass(Tape& tape, const Value& x, const Value& weights, const Tensor& ids, bool alike, const Experts& experts,
               const ExpertRoute& route, SharedWork shared) {
  const auto call = std::make_shared<PassCall>(
      PassCall{.routes = make_limited_routes(ids, alike, route, experts.shape(), x.data.dtype(), tape.stream),
               .route = route,
               .experts = &experts,
               .shared = {.compute = {}, .flops = shared.flops, .products = shared.products},
               .shared_begin = tape.size()});
  // Evaluation keeps nothing, and a block that is computed again restores everything already.
  const bool keeps = tape.mode() != Tape::Mode::record || route.schedule.memory_reuse == ReuseStrategy::none;
  if (!keeps) call->tokens = chunk_tokens(call->routes, tape.stream);
  const std::shared_ptr<MemoryReuse> reuse = keeps ? keep_activations(call) : offload_or_recompute(call);
  auto [out, returned] = forward(*call, x.data, weights.data, *reuse, tape.recording(), std::move(shared), tape.stream);
  return tape.record("moe_pass", out, {x, weights}, reuse->save(x.data, weights.data, std::move(returned)),
                     [reuse](Backward& b, const Tensor& dout, const Saved& saved) { reuse->backward(b, dout, saved); },
                     {experts.parameters(), {}});
}

}  // namespace hexad::moe
