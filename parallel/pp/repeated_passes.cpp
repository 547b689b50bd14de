#include "parallel/pp/repeated_passes.h"

#include <algorithm>

namespace hexad::pp {
namespace {

// True if, in every chunk, the first forward, the first backward and the first weight gradients belong to micro-batch
// 0.
bool begins_in_order(std::span<const Action> actions) {
  std::map<std::pair<int, int>, int> firsts;  // first micro-batch, by work and chunk
  for (const Action& a : actions) {
    if (a.is_forward()) firsts.try_emplace({0, a.chunk}, a.micro);
    if (a.is_backward()) firsts.try_emplace({1, a.chunk}, a.micro);
    if (a.kind == Action::Kind::backward || a.kind == Action::Kind::backward_weight)
      firsts.try_emplace({2, a.chunk}, a.micro);
  }
  return std::ranges::all_of(firsts, [](const auto& first) { return first.second == 0; });
}

}  // namespace

void RepeatedPasses::begin(std::span<const Action> actions, int micro_batches) {
  repetitions_.clear();
  const bool in_order = begins_in_order(actions);
  last_ = micro_batches - 1;
  records_ = recording_ && in_order && last_ > 0;
  repeats_ = !recording_ && in_order && std::ranges::all_of(actions, [&](const Action& a) {
    if (a.micro == 0) return true;
    const auto at = recorded_.find({a.chunk, a.kind});
    return at != recorded_.end() && at->second.repeatable;
  });
}

void RepeatedPasses::repeat(Kind kind, int chunk, int micro, const std::function<void(Parameter&)>& report) {
  Recorded& recorded = recorded_.at({chunk, kind});
  const Parameter* const other = recorded.parameters->other_gradient();
  base::require(other == nullptr, "[pp] a repeated pass contributes to the gradient of ", other ? other->name() : "",
                ", which has ", other && other->has_gradient() ? "a" : "no",
                " contribution of an earlier pass; expected the opposite, as when the pass was recorded");
  std::vector<device::RepeatedPart>& earlier = repetitions_[{chunk, micro}];
  device::RepeatedPart repeated = log_.repeat(
      recorded.part, earlier, [&](size_t number) { return recorded.parameters->repeat(number, recorder_, report); });
  recorded.parameters->end_repetition();
  earlier.push_back(std::move(repeated));
  ++count_;
}

void RepeatedPasses::start(Kind kind, int chunk) {
  Recorded& recorded = recorded_[{chunk, kind}];
  // A forward may contribute to gradients, too: for example, the loss contributes if its logits are computed in several
  // blocks. The parameters that the chunk uses are known only after its forward.
  recorder_.open(recorded.parameters.emplace(log_, kind == Kind::forward ? recorder_.parameters() : used(chunk)));
  log_.start_part(recorded.part);
}

void RepeatedPasses::end(Kind kind, int chunk) {
  log_.end_part();
  recorder_.close();
  std::vector<const device::IssuePart*> earlier;  // other passes of the same micro-batch and chunk
  for (const auto& [pass, recorded] : recorded_)
    if (pass.first == chunk && pass.second != kind) earlier.push_back(&recorded.part);
  Recorded& recorded = recorded_.at({chunk, kind});
  recorded.parameters->end(recorded.part);
  recorded.repeatable = recorded.parameters->repeatable() && recorded.part.repeatable_after(earlier);
}

RepeatedStages::RepeatedStages(TapeStages& work, const Schedule& schedule, int rank, device::Device device,
                               RepeatedPasses& passes)
    : work_(work), device_(device), passes_(passes) {
  passes_.begin(schedule.ranks[rank], schedule.micro_batches);
}

template <class F>
Tensor RepeatedStages::pass(Kind kind, int chunk, int micro, F&& run) {
  if (passes_.repeats(micro)) {
    if (kind == Kind::forward) work_.leave_out_forward(passes_.used(chunk));
    passes_.repeat(kind, chunk, micro, [&](Parameter& p) { work_.leave_out_contribution(p); });
    const auto [shape, dtype] = boundary(micro);
    return Tensor::empty(shape, dtype, device_);
  }
  if (!passes_.records(micro)) return run();
  passes_.start(kind, chunk);
  Tensor result = run();
  passes_.end(kind, chunk);
  if (kind == Kind::forward) passes_.set_used(chunk, work_.used_parameters(chunk, micro));
  return result;
}

Tensor RepeatedStages::forward(int chunk, int micro, const Tensor& input) {
  return pass(Kind::forward, chunk, micro, [&] { return work_.forward(chunk, micro, input); });
}

Tensor RepeatedStages::backward(int chunk, int micro, const Tensor& doutput, Replay::Weights weights) {
  const Kind kind = weights == Replay::Weights::at_once ? Kind::backward : Kind::backward_input;
  return pass(kind, chunk, micro, [&] { return work_.backward(chunk, micro, doutput, weights); });
}

void RepeatedStages::weights(int chunk, int micro) {
  pass(Kind::backward_weight, chunk, micro, [&] {
    work_.weights(chunk, micro);
    return Tensor();
  });
}

}  // namespace hexad::pp
