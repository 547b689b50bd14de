// Passes of micro-batches that a meta device records once and then repeats in its log, because they are equal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "framework/device/meta/issue_part.h"
#include "parallel/pp/parameter_calls.h"
#include "parallel/pp/tape_stages.h"

namespace hexad::pp {

/// Recorded passes of a rank's virtual stages. The first step of the rank has several micro-batches and records the
/// passes of the last micro-batch. In later steps, the log repeats these passes for all micro-batches except the first.
/// The passes of the first micro-batch run, because its contributions replace the old values of gradients. Each
/// repetition makes the calls to the storage of parameters (ParameterCalls) again. Weights are therefore gathered and
/// gradients are reduced as in a step that runs all passes.
///
/// A step with repeated passes logs the same as a step that runs all passes, provided that all micro-batches except the
/// first make the same calls to the log. Calls to the storage of parameters may differ. Other calls differ in three
/// cases, of which only the last is checked:
/// - Passes of different micro-batches have different sizes, because the recipe chooses their experts.
/// - Two passes run as fibers.
/// - Gradients are reduced for each micro-batch (ZeRO-2, ZeRO-3), and a rank begins the gradients of a micro-batch
///   before it has completed the gradients of another micro-batch. Some contributions are then added to others before a
///   reduction. The repetition of such a pass throws std::logic_error (ParameterCalls::other_gradient()).
///
/// No pass is repeated in three cases:
/// - A recorded pass waits for an operation of another micro-batch, or holds weights after its end.
/// - A virtual stage has passes of a kind that was not recorded. dualpipe_v, for example, delays weight gradients only
///   in some passes.
/// - In a virtual stage, a micro-batch other than 0 comes first.
class RepeatedPasses {
 public:
  using Kind = Action::Kind;
  /// Minimum number of micro-batches of the step that records passes.
  static constexpr int recorded_micro_batches = 2;

  /// Makes an object without recorded passes. `log` and `recorder` must outlive the object. `recorder` must get the
  /// contributions of all passes to gradients.
  RepeatedPasses(device::IssueLog& log, ParameterRecorder& recorder) : log_(log), recorder_(recorder) {}
  RepeatedPasses(const RepeatedPasses&) = delete;
  RepeatedPasses& operator=(const RepeatedPasses&) = delete;

  /// Ends the recording. Later steps repeat passes.
  void end_recording() { recording_ = false; }
  /// Returns the number of passes that were repeated instead of run.
  int64_t repeated() const { return count_; }

  /// Prepares a step with the actions of this rank.
  void begin(std::span<const Action> actions, int micro_batches);
  /// True if the passes of micro-batch `micro` are repeated in the step.
  bool repeats(int micro) const { return repeats_ && micro > 0; }
  /// True if the passes of micro-batch `micro` are recorded in the step.
  bool records(int micro) const { return records_ && micro == last_; }
  /// Repeats the recorded pass for micro-batch `micro`. `report` is called for each contribution to a gradient.
  void repeat(Kind kind, int local_stage, int micro, const std::function<void(Parameter&)>& report);
  /// The next two functions begin and end the recording of a pass.
  void start(Kind kind, int local_stage);
  void end(Kind kind, int local_stage);
  /// The next two functions set and return the parameters that the recorded forward of a virtual stage uses. The
  /// parameters must be set between the recordings of the forward and of the next pass of the virtual stage.
  void set_used(int local_stage, std::vector<Parameter*> parameters) { used_[local_stage] = std::move(parameters); }
  std::span<Parameter* const> used(int local_stage) { return used_[local_stage]; }

 private:
  using Pass = std::pair<int, Kind>;  // local stage and kind
  struct Recorded {
    device::IssuePart part;
    std::optional<ParameterCalls> parameters{};
    bool repeatable = false;
  };

  device::IssueLog& log_;
  ParameterRecorder& recorder_;
  bool recording_ = true;
  bool records_ = false, repeats_ = false;  // true if the step records, or repeats, passes
  int last_ = 0;                            // last micro-batch of the step
  int64_t count_ = 0;
  std::map<Pass, Recorded> recorded_;
  std::map<int, std::vector<Parameter*>> used_;  // by local stage
  // Repetitions of the passes of a virtual stage and a micro-batch, in order.
  std::map<std::pair<int, int>, std::vector<device::RepeatedPart>> repetitions_;
};

/// Stages that run and record passes, or repeat recorded passes. `work` and `passes` must outlive the object.
class RepeatedStages final : public StageWork {
 public:
  RepeatedStages(TapeStages& work, const Schedule& schedule, int rank, device::Device device, RepeatedPasses& passes);

  Boundary boundary(int micro) const override { return work_.boundary(micro); }
  Tensor forward(int local_stage, int micro, const Tensor& input) override;
  Tensor backward(int local_stage, int micro, const Tensor& doutput, Replay::Weights weights) override;
  void weights(int local_stage, int micro) override;

 private:
  using Kind = Action::Kind;
  template <class F>
  Tensor pass(Kind kind, int local_stage, int micro, F&& run);

  TapeStages& work_;
  const device::Device device_;
  RepeatedPasses& passes_;
};

}  // namespace hexad::pp
