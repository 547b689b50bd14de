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

bool RepeatedPasses::is_repeatable(const Pass& pass) const {
  const auto at = recorded_.find(pass);
  return at != recorded_.end() && at->second.repeatable;
}

void RepeatedPasses::begin(std::span<const Action> actions, int micro_batches) {
  repetitions_.clear(), delayed_.clear(), recorded_micro_.clear();
  for (const Action& a : actions)
    if (a.kind == Kind::backward_input) delayed_.emplace(a.local_stage, a.micro);
  const bool in_order = begins_in_order(actions);
  records_ = recording_ && in_order && micro_batches > first_recorded_;
  if (records_)
    for (const Action& a : actions) {
      if (!a.is_forward() || a.micro < first_recorded_) continue;
      int& micro = recorded_micro_.try_emplace(variant(a.local_stage, a.micro), a.micro).first->second;
      micro = std::min(micro, a.micro);
    }
  const auto all_repeatable = [&](bool first) {
    return !recording_ && in_order && std::ranges::all_of(actions, [&](const Action& a) {
      return (a.micro == 0) != first || is_repeatable(pass(a.kind, a.local_stage, a.micro));
    });
  };
  repeats_others_ = all_repeatable(false);
  repeats_first_ = repeats_others_ && all_repeatable(true);
}

bool RepeatedPasses::records(int local_stage, int micro) const {
  const auto at = recorded_micro_.find(variant(local_stage, micro));
  return at != recorded_micro_.end() && at->second == micro;
}

bool RepeatedPasses::repeats(int local_stage, int micro) const {
  if (micro == 0) return repeats_first_;
  return repeats_others_ || (records_ && micro >= first_recorded_ && !records(local_stage, micro));
}

void RepeatedPasses::repeat(Kind kind, int local_stage, int micro, const std::function<void(Parameter&)>& report) {
  const Pass which = pass(kind, local_stage, micro);
  if (!is_repeatable(which))
    throw PassesDiffer(
        base::cat("[pp] micro-batch ", micro, " of virtual stage ", local_stage,
                  " of a rank has a pass that was not recorded or cannot be repeated; expected a recorded pass that "
                  "waits for no operation of another micro-batch"));
  Recorded& recorded = recorded_.at(which);
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

void RepeatedPasses::start(Kind kind, int local_stage, int micro) {
  Recorded& recorded = recorded_[pass(kind, local_stage, micro)];
  // A forward may contribute to gradients, too: for example, the loss contributes if its logits are computed in several
  // blocks. The parameters that the virtual stage uses are known only after its forward.
  recorder_.open(recorded.parameters.emplace(log_, kind == Kind::forward ? recorder_.parameters() : used(local_stage)));
  log_.start_part(recorded.part);
}

void RepeatedPasses::end(Kind kind, int local_stage, int micro) {
  log_.end_part();
  recorder_.close();
  const Pass which = pass(kind, local_stage, micro);
  std::vector<const device::IssuePart*> earlier;  // other passes of the same micro-batch and virtual stage
  for (const Kind other : {Kind::forward, Kind::backward, Kind::backward_input, Kind::backward_weight})
    if (const auto at = recorded_.find(pass(other, local_stage, micro)); other != kind && at != recorded_.end())
      earlier.push_back(&at->second.part);
  Recorded& recorded = recorded_.at(which);
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
  if (passes_.repeats(local_stage, micro)) {
    if (kind == Kind::forward) work_.leave_out_forward(passes_.used(local_stage));
    passes_.repeat(kind, local_stage, micro, [&](Parameter& p) { work_.leave_out_contribution(p); });
    const auto [shape, dtype] = boundary(micro);
    return Tensor::empty(shape, dtype, device_);
  }
  if (!passes_.records(local_stage, micro)) return run();
  passes_.start(kind, local_stage, micro);
  Tensor result = run();
  passes_.end(kind, local_stage, micro);
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
