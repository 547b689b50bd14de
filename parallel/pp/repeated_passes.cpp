#include "parallel/pp/repeated_passes.h"

#include <algorithm>

namespace hexad::pp {
namespace {

// True if, in every chunk, micro-batch 0 has the first forward, the first backward and the first gradients of weights,
// and micro-batch `last` has the last ones.
bool ends_in_order(std::span<const Action> actions, int last) {
  std::map<std::pair<int, int>, std::pair<int, int>> ends;  // first and last micro-batch, by work and chunk
  const auto see = [&](int work, const Action& a) {
    ends.try_emplace({work, a.chunk}, a.micro, a.micro).first->second.second = a.micro;
  };
  for (const Action& a : actions) {
    if (a.is_forward()) see(0, a);
    if (a.is_backward()) see(1, a);
    if (a.kind == Action::Kind::backward || a.kind == Action::Kind::backward_weight) see(2, a);
  }
  return std::ranges::all_of(ends, [&](const auto& e) { return e.second == std::pair(0, last); });
}

}  // namespace

void RepeatedPasses::begin(std::span<const Action> actions, int micro_batches) {
  repetitions_.clear();
  last_ = micro_batches - 1;
  const bool in_order = ends_in_order(actions, last_);
  records_ = recording_ && in_order;
  repeats_ = !recording_ && in_order && std::ranges::all_of(actions, [&](const Action& a) {
    if (!is_middle(a.micro)) return true;
    const auto at = recorded_.find({a.chunk, a.kind});
    return at != recorded_.end() && at->second.repeatable;
  });
}

void RepeatedPasses::repeat(Kind kind, int chunk, int micro) {
  std::vector<device::RepeatedPart>& earlier = repetitions_[{chunk, micro}];
  device::RepeatedPart repeated = log_.repeat(recorded_.at({chunk, kind}).part, earlier);
  earlier.push_back(std::move(repeated));
  ++count_;
}

void RepeatedPasses::start(Kind kind, int chunk) { log_.start_part(recorded_[{chunk, kind}].part); }

void RepeatedPasses::end(Kind kind, int chunk) {
  log_.end_part();
  std::vector<const device::IssuePart*> earlier;  // other passes of the same micro-batch and chunk
  for (const auto& [pass, recorded] : recorded_)
    if (pass.first == chunk && pass.second != kind) earlier.push_back(&recorded.part);
  Recorded& recorded = recorded_.at({chunk, kind});
  recorded.repeatable = recorded.part.repeatable_after(earlier);
}

RepeatedStages::RepeatedStages(TapeStages& work, const Schedule& schedule, int rank, device::Device device,
                               RepeatedPasses& passes)
    : work_(work), device_(device), passes_(passes) {
  passes_.begin(schedule.ranks[rank], schedule.micro_batches);
}

template <class F>
Tensor RepeatedStages::pass(Kind kind, int chunk, int micro, F&& run) {
  if (passes_.repeats(micro)) {
    if (kind == Kind::forward) work_.leave_out_forward();
    passes_.repeat(kind, chunk, micro);
    const auto [shape, dtype] = boundary(micro);
    return Tensor::empty(shape, dtype, device_);
  }
  if (!passes_.records(micro)) return run();
  passes_.start(kind, chunk);
  Tensor result = run();
  passes_.end(kind, chunk);
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
