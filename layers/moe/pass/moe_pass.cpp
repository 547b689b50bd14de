#include "layers/moe/pass/moe_pass.h"

#include "layers/moe/pass/combine.h"
#include "layers/moe/pass/pass_call.h"
#include "parallel/tp/regions.h"

namespace hexad::moe {

PassResult moe_pass(Tape& tape, const Value& x, const Value& weights, const Tensor& ids, Held held,
                    const Experts& experts, const PassSettings& settings, const std::vector<Value>& addends,
                    const SharedWork& shared) {
  const PassCall call{.routes = std::make_shared<const Routes>(
                          make_routes(ids, held, settings, experts.shape(), x.data.dtype(), tape.stream)),
                      .experts = &experts,
                      .shared = shared.cost,
                      .backward_transfers = shared.backward_transfers,
                      .first_shared_op = tape.size()};
  // restoring_pass saves memory between a recorded forward and its backward. In two cases, it would save nothing:
  // evaluation has no backward, and a recomputed block (recompute: block) runs backward directly after forward.
  const bool restores = tape.mode() == Tape::Mode::record && settings.schedule.memory_reuse != ReuseStrategy::none;
  return {restores ? restoring_pass(tape, x, weights, call, addends, shared)
                   : keeping_pass(tape, x, weights, call, addends, shared),
          call.routes->plan.counts.hot.count()};
}

Value take_share(Tape& tape, const Value& x, const PassSettings& settings) {
  const comm::ProcessGroup& group = *settings.tensor;
  const int64_t share = tp::rows_per_rank("moe", x.data.dim(0), group), begin = group.rank() * share;
  Tensor own = Tensor::empty({share, x.data.dim(1)}, x.data.dtype(), x.data.device());
  kernels_of(own).pointwise.copy(tape.stream, own, x.data.slice(0, begin, begin + share));
  return tape.record("take_share", own, {x}, {}, [settings](Backward& b, const Tensor& dout, const Saved&) {
    const auto timer = settings.start(PassKind::gradient_of_shares, b.stream);
    b.accumulate(0, gather_gradient_of_shares(settings, dout));
    if (timer) timer->stop(b.stream);
  });
}

}  // namespace hexad::moe
