#include "parallel/pp/repeated_passes.h"

#include <algorithm>

namespace hexad::pp {
namespace {

// True if, in every virtual stage, the first forward, the first backward and the first weight gradients belong to
// micro-batch 0.
bool begins_in_order(std::span<const Action> actions) {
  std::map<std::pair<int, int>, int> firsts;  // first micro-batch, by work and local stage
  for (const Action& a : actions) {
    if (a.is_forward()) firsts.try_emplace({0, a.local_stage}, a.micro);
    if (a.is_backward()) firsts.try_emplace({1, a.local_stage}, a.micro);
    if (a.kind == Action::Kind::backward || a.kind == Action::Kind::backward_weight)
      firsts.try_emplace({2, a.local_stage}, a.micro);
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
    const auto at = recorded_.find({a.local_stage, a.kind});
    return at != recorded_.end() && at->second.repeatable;
  });
}

void RepeatedPasses::repeat(Kind kind, int local_stage, int micro, const std::function<void(Parameter&)>& report) {
  Recorded& recorded = recorded_.at({local_stage, kind});
  const Parameter* const other = recorded.parameters->other_gradient();
  base::require(other == nullptr, "[pp] a repeated pass contributes to the gradient of ", other ? other->name() : "",
                ", which has ", other && other->has_gradient() ? "a" : "no",
                " contribution of an earlier pass; expected ", other && other->has_gradient() ? "none" : "one",
                ", as when the pass was recorded");
  std::vector<device::RepeatedPart>& earlier = repetitions_[{local_stage, micro}];
  device::RepeatedPart repeated = log_.repeat(
      recorded.part, earlier, [&](size_t number) { return recorded.parameters->repeat(number, recorder_, report); });
  recorded.parameters->end_repetition();
  earlier.push_back(std::move(repeated));
  ++count_;
}

void RepeatedPasses::start(Kind kind, int local_stage) {
  Recorded& recorded = recorded_[{local_stage, kind}];
  // A forward may contribute to gradients, too: for example, the loss contributes if its logits are computed in several
  // blocks. The parameters that the virtual stage uses are known only after its forward.
  recorder_.open(recorded.parameters.emplace(log_, kind == Kind::forward ? recorder_.parameters() : used(local_stage)));
  log_.start_part(recorded.part);
}

void RepeatedPasses::end(Kind kind, int local_stage) {
  log_.end_part();
  recorder_.close();
  std::vector<const device::IssuePart*> earlier;  // other passes of the same micro-batch and virtual stage
  for (const auto& [pass, recorded] : recorded_)
    if (pass.first == local_stage && pass.second != kind) earlier.push_back(&recorded.part);
  Recorded& recorded = recorded_.at({local_stage, kind});
  recorded.parameters->end(recorded.part);
  recorded.repeatable = recorded.parameters->repeatable() && recorded.part.repeatable_after(earlier);
}

RepeatedStages::RepeatedStages(TapeStages& work, const Schedule& schedule, int rank, device::Device device,
                               RepeatedPasses& passes)
    : work_(work), device_(device), passes_(passes) {
  passes_.begin(schedule.ranks[rank], schedule.micro_batches);
}

template <class F>
Tensor RepeatedStages::pass(Kind kind, int local_stage, int micro, F&& run) {
  if (passes_.repeats(micro)) {
    if (kind == Kind::forward) work_.leave_out_forward(passes_.used(local_stage));
    passes_.repeat(kind, local_stage, micro, [&](Parameter& p) { work_.leave_out_contribution(p); });
    const auto [shape, dtype] = boundary(micro);
    return Tensor::empty(shape, dtype, device_);
  }
  if (!passes_.records(micro)) return run();
  passes_.start(kind, local_stage);
  Tensor result = run();
  passes_.end(kind, local_stage);
  if (kind == Kind::forward) passes_.set_used(local_stage, work_.used_parameters(local_stage, micro));
  return result;
}

Tensor RepeatedStages::forward(int local_stage, int micro, const Tensor& input) {
  return pass(Kind::forward, local_stage, micro, [&] { return work_.forward(local_stage, micro, input); });
}

Tensor RepeatedStages::backward(int local_stage, int micro, const Tensor& doutput, Replay::Weights weights) {
  const Kind kind = weights == Replay::Weights::at_once ? Kind::backward : Kind::backward_input;
  return pass(kind, local_stage, micro, [&] { return work_.backward(local_stage, micro, doutput, weights); });
}

void RepeatedStages::weights(int local_stage, int micro) {
  pass(Kind::backward_weight, local_stage, micro, [&] {
    work_.weights(local_stage, micro);
    return Tensor();
  });
}

}  // namespace hexad::pp
