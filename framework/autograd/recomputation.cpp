#include "framework/autograd/recomputation.h"

namespace hexad::autograd {

std::vector<Value> checkpoint(Tape& tape, std::string_view name, std::span<const Value> inputs,
                              const Segment& segment) {
  if (!tape.recording()) return segment(tape, inputs);

  Tape first(tape.stream, tape.policy(), Tape::Mode::forget);
  std::vector<Value> constants;
  std::vector<Tensor> saved;
  std::vector<char> wants;  // for each input: true if the second run must compute its gradient
  for (const Value& v : inputs) {
    constants.push_back({v.data, -1});
    saved.push_back(v.data);
    wants.push_back(v.wants_gradient());
  }
  std::vector<Tensor> outs;
  for (const Value& v : segment(first, constants)) outs.push_back(v.data);

  SavePolicy* policy = &tape.policy();
  const bool recompute_norms = tape.recompute_norms();
  auto pullback = [name, segment, wants, policy, recompute_norms, count = outs.size()](Backward& b, const Tensor&,
                                                                                       const Saved& s) {
    // Delayed weight tasks share ownership of `second`, because their replay refers to `second`.
    auto second = std::make_shared<Tape>(b.stream, *policy, Tape::Mode::recompute, recompute_norms);
    const auto tensors = s.all();
    std::vector<Value> leaves;
    for (size_t i = 0; i < tensors.size(); ++i)
      leaves.push_back(wants[i] ? second->leaf(tensors[i]) : Value{tensors[i], -1});
    const std::vector<Value> results = segment(*second, leaves);
    require(results.size() == count, "[checkpoint] ", name, " returned ", count, " values, but ", results.size(),
            " when recomputed; expected the same number");
    std::vector<Replay::Root> roots;
    for (size_t o = 0; o < count; ++o)
      if (b.output_gradient(o).defined() && results[o].wants_gradient())
        roots.push_back({results[o], b.output_gradient(o)});
    auto replay = std::make_shared<Replay>(*second, roots, Replay::Weights::delayed);
    // The gradients of the leaves start from the outer tape's sums so far. Addends are then summed in the same order,
    // with the same rounding, as on a single tape.
    for (size_t i = 0; i < leaves.size(); ++i)
      if (wants[i]) replay->seed(leaves[i], b.take_gradient(i));
    // Passes the weight tasks of each node to the outer replay. If the outer replay does not delay weight tasks, the
    // tasks of a node run directly after the node. They release their tensors before the next node runs.
    for (size_t pending = 0; replay->step(); pending = replay->pending_weights())
      for (size_t added = replay->pending_weights() - pending; added > 0; --added)
        b.defer([second, replay] { replay->step_weights(); });
    for (size_t i = 0; i < leaves.size(); ++i)
      if (wants[i])
        if (Tensor g = replay->take_gradient(leaves[i]); g.defined()) b.accumulate(i, g);
  };
  // The weight pullback has no work: its task only follows the deferred tasks and reports the parameters as finished.
  WeightPullback weights{first.used_parameters(), {}};
  return tape.record_many(name, outs, inputs, saved, std::move(pullback), std::move(weights));
}

}  // namespace hexad::autograd
