#include "parallel/pp/tape_stages.h"

#include <set>

namespace hexad::pp {

using base::require;

TapeStages::TapeStages(const Schedule& schedule, int rank, std::function<Boundary(int)> boundary, Functions functions)
    : stages_(schedule.stages),
      rank_(rank),
      boundary_(std::move(boundary)),
      functions_(std::move(functions)),
      forwards_left_(schedule.stages.stages_a_rank * schedule.micro_batches) {}

Tensor TapeStages::forward(int local_stage, int micro, const Tensor& input) {
  InFlight flight;
  flight.tape = functions_.tape();
  Tape& tape = *flight.tape;
  if (input.defined()) flight.input = tape.leaf(input);
  Output output = functions_.forward(tape, local_stage, micro, flight.input);
  flight.input.data = {};  // ops that need the input have saved it
  flight.roots = std::move(output.roots);
  const bool last = stages_.stage(rank_, local_stage) == stages_.last();
  if (!last) flight.output = output.activation.id;
  for (Parameter* p : std::set(tape.used_parameters().begin(), tape.used_parameters().end())) ++pending_uses_[p];
  --forwards_left_;
  in_flight_[{local_stage, micro}] = std::move(flight);
  return last ? Tensor{} : output.activation.data;
}

Tensor TapeStages::backward(int local_stage, int micro, const Tensor& doutput, Replay::Weights weights) {
  const auto at = in_flight_.find({local_stage, micro});
  require(at != in_flight_.end(), "[pp] backward of local stage ", local_stage, ", micro-batch ", micro,
          ", runs before its forward; expected the forward first");
  if (functions_.before_backward) functions_.before_backward();
  InFlight& flight = at->second;
  std::vector<Replay::Root> roots = std::move(flight.roots);
  if (flight.output >= 0) roots.push_back({{doutput, flight.output}, doutput});
  flight.replay = std::make_unique<Replay>(*flight.tape, roots, weights, [this](Parameter& p) { contributed(p); });
  roots.clear();
  while (flight.replay->step()) {
  }
  Tensor dinput;
  if (flight.input.wants_gradient()) dinput = flight.replay->take_gradient(flight.input);
  if (weights == Replay::Weights::at_once) in_flight_.erase(at);
  return dinput;
}

void TapeStages::weights(int local_stage, int micro) {
  const auto at = in_flight_.find({local_stage, micro});
  require(at != in_flight_.end() && at->second.replay, "[pp] the weight gradients of local stage ", local_stage,
          ", micro-batch ", micro, " are computed before their backward; expected the backward first");
  at->second.replay->run();
  in_flight_.erase(at);
}

std::vector<Parameter*> TapeStages::used_parameters(int local_stage, int micro) const {
  const std::vector<Parameter*>& uses = in_flight_.at({local_stage, micro}).tape->used_parameters();
  const std::set<Parameter*> used(uses.begin(), uses.end());
  return {used.begin(), used.end()};
}

void TapeStages::leave_out_forward(std::span<Parameter* const> parameters) {
  for (Parameter* p : parameters) ++pending_uses_[p];
  --forwards_left_;
}

// Reports a contribution to the gradient of `p`. The rank's last contribution follows its last forward. By then,
// pending_uses_ counts every tape that uses `p`.
void TapeStages::contributed(Parameter& p) {
  const bool last = --pending_uses_[&p] == 0 && forwards_left_ == 0;
  if (functions_.contributed) functions_.contributed(p, last);
}

}  // namespace hexad::pp
