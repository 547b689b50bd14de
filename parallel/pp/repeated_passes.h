// Passes of micro-batches that a meta device records once and then repeats in its log, because they are equal.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "framework/device/meta/issue_part.h"
#include "parallel/pp/parameter_calls.h"
#include "parallel/pp/tape_stages.h"

namespace hexad::pp {

/// Error of a recording step. A micro-batch that is not recorded has a pass that cannot be repeated, for example a
/// backward whose forward was already repeated. The step is then invalid, and a new run must run all passes.
class PassesDiffer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Recorded passes of a rank's virtual stages. The first step of the rank has several micro-batches and records passes.
/// In later steps, the log repeats these passes. Each repetition makes the calls to the storage of parameters
/// (ParameterCalls) again. Weights are therefore gathered and gradients are reduced as in a step that runs all passes.
///
/// A virtual stage has up to three kinds of micro-batches (Variant). Micro-batch 0 differs from the other
/// micro-batches, because its contributions replace the old values of gradients. The weight gradients of some of the
/// other micro-batches may be delayed (dualpipe_v). In each virtual stage, the first micro-batch of each kind is
/// recorded, except micro-batches before `first_recorded`. The recording step already repeats the passes of later
/// micro-batches. Micro-batch 0 runs in all steps if it is not recorded.
///
/// A step with repeated passes logs the same operations as a step that runs all passes under two conditions: all
/// micro-batches except the first make the same calls to the log, and the first micro-batch makes the same calls in all
/// steps. Calls to the storage of parameters may differ. Other calls differ in three cases, of which only the last is
/// checked:
/// - Passes of different micro-batches have different sizes, because model.moe.routing overrides the choice of experts.
/// - Two passes run as fibers.
/// - A rank begins the gradients of a micro-batch before the gradients of another micro-batch are complete. This
///   matters under ZeRO-2 and ZeRO-3, which reduce gradients for each micro-batch. Some contributions are then added to
///   others before a reduction. The repetition of such a pass throws std::logic_error
///   (ParameterCalls::other_gradient()).
///
/// After the recording step, no pass is repeated in three cases:
/// - A recorded pass waits for an operation of another micro-batch, or holds weights after its end. The passes of all
///   other micro-batches are repeated if only passes of micro-batch 0 do so.
/// - A virtual stage has passes of a kind that was not recorded.
/// - In a virtual stage, a micro-batch other than 0 comes first.
class RepeatedPasses {
 public:
  using Kind = Action::Kind;
  /// Minimum number of micro-batches of the step that records passes.
  static constexpr int recorded_micro_batches = 2;

  /// Makes an object without recorded passes. `log` and `recorder` must outlive the object. `recorder` must get the
  /// contributions of all passes to gradients. Micro-batches before `first_recorded` run in the recording step and are
  /// not recorded.
  RepeatedPasses(device::IssueLog& log, ParameterRecorder& recorder, int first_recorded)
      : log_(log), recorder_(recorder), first_recorded_(first_recorded) {}
  RepeatedPasses(const RepeatedPasses&) = delete;
  RepeatedPasses& operator=(const RepeatedPasses&) = delete;

  /// Ends the recording. Later steps repeat passes.
  void end_recording() { recording_ = false; }
  /// Returns the number of passes that were repeated instead of run.
  int64_t repeated() const { return count_; }

  /// Prepares a step with the actions of this rank.
  void begin(std::span<const Action> actions, int micro_batches);
  /// True if the passes of micro-batch `micro` in a virtual stage are repeated in the step.
  bool repeats(int local_stage, int micro) const;
  /// True if the passes of micro-batch `micro` in a virtual stage are recorded in the step.
  bool records(int local_stage, int micro) const;
  /// Repeats the recorded pass for micro-batch `micro`. `report` is called for each contribution to a gradient. Throws
  /// PassesDiffer if the pass was not recorded or cannot be repeated. This is possible only in a recording step.
  void repeat(Kind kind, int local_stage, int micro, const std::function<void(Parameter&)>& report);
  /// The next two functions begin and end the recording of a pass of micro-batch `micro`.
  void start(Kind kind, int local_stage, int micro);
  void end(Kind kind, int local_stage, int micro);
  /// The next two functions set and return the parameters that the recorded forward of a virtual stage uses. Set the
  /// parameters after the recording of the forward, and before the recording of the next pass of this virtual stage.
  void set_used(int local_stage, std::vector<Parameter*> parameters) { used_[local_stage] = std::move(parameters); }
  std::span<Parameter* const> used(int local_stage) { return used_[local_stage]; }

 private:
  // Kind of micro-batch in a virtual stage.
  struct Variant {
    int local_stage;
    bool is_first;  // true: micro-batch 0
    bool delays;    // true: a backward_weight computes the gradients of the weights
    auto operator<=>(const Variant&) const = default;
  };
  using Pass = std::pair<Variant, Kind>;
  struct Recorded {
    device::IssuePart part;
    std::optional<ParameterCalls> parameters{};
    bool repeatable = false;
  };

  Variant variant(int local_stage, int micro) const {
    return {local_stage, micro == 0, delayed_.contains({local_stage, micro})};
  }
  Pass pass(Kind kind, int local_stage, int micro) const { return {variant(local_stage, micro), kind}; }
  bool is_repeatable(const Pass& pass) const;

  device::IssueLog& log_;
  ParameterRecorder& recorder_;
  const int first_recorded_;
  bool recording_ = true;
  bool records_ = false;  // true if the step records passes
  // True if the step repeats the passes of micro-batch 0 (repeats_first_), or of all other micro-batches
  // (repeats_others_).
  bool repeats_first_ = false, repeats_others_ = false;
  // Local stages and micro-batches of the step whose weight gradients are delayed.
  std::set<std::pair<int, int>> delayed_;
  std::map<Variant, int> recorded_micro_;  // in a recording step: recorded micro-batch of each variant
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
