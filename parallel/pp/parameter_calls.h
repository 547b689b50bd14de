// Calls that a recorded part of a step makes to the storage of its parameters.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/device/meta/issue_part.h"
#include "parallel/pp/pp_names.h"

namespace hexad::pp {

class ParameterRecorder;

/// Calls of a recorded part to the storage of its parameters (parallel/dp): uses of weights, requests for memory of
/// gradients, and contributions to gradients. The storage may gather weights at a use, and may reduce gradients at a
/// contribution. The operations of such a call depend on the uses and contributions of other parts. Therefore a
/// repetition of the part makes the call again (IssueLog::InnerCall).
class ParameterCalls {
 public:
  /// Prepares the recording of a part. `used` contains the parameters to whose gradients the part may contribute. These
  /// parameters and `log` must outlive the object.
  ParameterCalls(IssueLog& log, std::span<Parameter* const> used);
  ParameterCalls(const ParameterCalls&) = delete;
  ParameterCalls& operator=(const ParameterCalls&) = delete;

  /// Records WeightStorage::gather_weights() and, when the result's `stay` is destroyed, the end of the use. This
  /// object must outlive `stay`. The result has an event even if the weights have arrived, so that the recorded part
  /// contains the waits for the event. In a repetition, the weights may be in flight.
  GatheredWeights use(WeightStorage& weights, Parameter& p, Stream& stream);
  /// The next two functions record GradientStorage::allocate_gradient() and only_contribution() of `gradients`.
  void allocate_gradient(GradientStorage& gradients, Parameter& p);
  GradientTarget only_contribution(GradientStorage& gradients, Parameter& p);
  /// Records `contributed`, which reports the contribution of the part to the gradient of `p`.
  void contribute(Parameter& p, const std::function<void()>& contributed);
  /// Ends the recording. `part` is the recorded part, after IssueLog::end_part().
  void end(device::IssuePart& part);

  /// True if a repetition of the part can make the calls again. This is the case if all calls were made in the part,
  /// and weights were in use only during the part.
  bool repeatable() const { return repeatable_; }
  /// Function that returns the parameter that a repetition uses in place of a parameter of the part. Empty: a
  /// repetition uses the same parameters.
  using Counterpart = std::function<Parameter&(Parameter&)>;
  /// Compares, for each gradient to which the part contributes, the present state with the state when the part was
  /// recorded. Returns the first parameter whose gradient has contributions of earlier parts in only one of the two
  /// states. For such a gradient, the part's kernels would replace the contents where they must add to them, or the
  /// reverse. Returns null if there is no such parameter.
  const Parameter* other_gradient(const Counterpart& counterpart = {}) const;
  /// Makes call `number` of a repetition and returns the event for which the part may wait. Calls go to `recorder`,
  /// which records them if the repetition belongs to another part. `report` is called for each contribution, in place
  /// of the recorded call.
  Event repeat(size_t number, ParameterRecorder& recorder, const std::function<void(Parameter&)>& report,
               const Counterpart& counterpart = {}) const {
    return calls_[number]({recorder, report, counterpart});
  }
  /// Ends a repetition. Marks the gradients to which the part contributed without a report. The part omits the report
  /// if it delays other contributions to the same gradient.
  void end_repetition(const Counterpart& counterpart = {}) const;

 private:
  // Arguments of a call that is made again.
  struct Again {
    ParameterRecorder& recorder;
    const std::function<void(Parameter&)>& report;
    const Counterpart& counterpart;
  };
  struct Contribution {
    Parameter* parameter;
    bool before;  // true if the gradient had a contribution when the part began
  };
  // Adds a call, and the event that it returned. `again` makes the call in a repetition.
  void add(std::function<Event(const Again&)> again, Event event = {});
  void end_use(size_t number);

  IssueLog& log_;
  const std::vector<Parameter*> used_;
  std::set<const Parameter*> with_gradient_;  // parameters whose gradients had contributions when the part began
  std::vector<Contribution> contributions_;   // contributions that the part reported
  std::vector<Parameter*> unreported_;        // parameters with a first, unreported contribution in the part
  std::vector<std::function<Event(const Again&)>> calls_;
  std::vector<Event> events_;  // for each call so far, the event that it returned; empty after end()
  size_t in_use_ = 0;
  bool ended_ = false, repeatable_ = true;
  std::map<size_t, GatheredWeights> held_;  // by call: uses of the current repetition that have not ended
};

/// Storage of parameters that records the calls of the current part, and passes all calls on to other storages.
class ParameterRecorder final : public WeightStorage, public GradientStorage {
 public:
  /// Makes a recorder for uses of weights in `weights`, which must outlive the last use.
  explicit ParameterRecorder(WeightStorage& weights) : weights_(weights) {}
  ParameterRecorder(const ParameterRecorder&) = delete;
  ParameterRecorder& operator=(const ParameterRecorder&) = delete;
  /// Makes this object the storage of the weights in the constructor's `weights`, and of all gradients that have a
  /// storage. The storage of a gradient must outlive the last contribution.
  void take(const autograd::ParameterSet& parameters);
  /// Returns all parameters passed to take().
  std::span<Parameter* const> parameters() const { return parameters_; }

  /// The next two functions begin and end the recording of a part, which adds to `calls`.
  void open(ParameterCalls& calls) { calls_ = &calls; }
  void close() { calls_ = nullptr; }
  /// Calls `contributed`, which reports a contribution to the gradient of `p`. Records the call if a part is recorded.
  void contribute(Parameter& p, const std::function<void()>& contributed);

  GatheredWeights gather_weights(Parameter& p, Stream& stream) override;
  bool weights_are_resident(const Parameter& p) const override { return weights_.weights_are_resident(p); }
  void allocate_gradient(Parameter& p) override;
  GradientTarget only_contribution(Parameter& p) override;

 private:
  WeightStorage& weights_;
  std::vector<Parameter*> parameters_;
  std::map<const Parameter*, GradientStorage*> gradients_;
  ParameterCalls* calls_ = nullptr;  // calls of the part that is being recorded; null: none
};

}  // namespace hexad::pp
