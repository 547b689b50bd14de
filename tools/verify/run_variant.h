// One run of the subject on one layout, compared with the oracle.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "parallel/comm/message_plan.h"
#include "tools/verify/subject.h"
#include "tools/verify/training_run.h"

namespace hexad::verify {

/// Hooks with which tests plant bugs, to check that verify finds them. A recipe or the command line cannot set hooks.
/// HEXAD_FAULT plants the bug of weight_fault.h.
class Sabotage {
 public:
  virtual ~Sabotage() = default;
  /// Returns groups that communicate wrongly, to replace the groups of `world`. `world` outlives the result. Null:
  /// correct groups.
  virtual std::unique_ptr<comm::ProcessGroup> groups(const comm::ProcessGroup&, const MeshSizes&) const {
    return nullptr;
  }
  /// Returns the plan that converts collectives to messages, for ranks with a communication engine.
  virtual comm::MakeMessagePlan plan() const { return comm::make_message_plan; }
  /// Returns data for this rank that replace `source`. Null: the correct data.
  virtual std::unique_ptr<data::Source> data(const data::Source&, const TrainingRun&) const { return nullptr; }
  virtual void initialized(TrainingRun&) const {}
  virtual void loaded(TrainingRun&) const {}
  virtual void before_step(TrainingRun&) const {}
  /// Called after the gradients are reduced and before they are used.
  virtual void reduced(TrainingRun&) const {}
  virtual void after_step(TrainingRun&, StepResult&) const {}
  /// Returns held-out text, like data().
  virtual std::unique_ptr<data::Source> heldout(const data::Source&, const TrainingRun&) const { return nullptr; }
};

struct Outcome {
  Variant variant;
  Comparison comparison{};
  std::string error{};  // reason why there is no comparison
  double seconds = 0;

  bool agrees() const { return error.empty() && comparison.mismatches.empty() && comparison.compared.something(); }
};

/// Runs this rank's part. Collective over the variant's ranks; the comparison is the same on all of them. Throws the
/// exceptions of training.
Comparison run_on_rank(const Subject& subject, const Oracle& oracle, const Variant& variant,
                       const comm::ProcessGroup& world, const Sabotage& sabotage = {});

/// Runs this rank's part like run_on_rank(), and returns an outcome.
Outcome run_in_world(const Subject& subject, const Oracle& oracle, const Variant& variant,
                     const comm::ProcessGroup& world);

/// Maximum delay of one operation or message, if delays are requested.
inline constexpr std::chrono::microseconds longest_delay{300};

struct ThreadRuns {
  std::optional<uint64_t> jitter;  // seed for delays in communication, and for the adversary of a ThreadNetwork
  double seconds = 240;            // time limit of a run
};
/// Returns the largest time, in seconds, that an operation of a run may wait for other ranks. The result is the
/// recipe's value, but at most a quarter of `seconds`, so that a hang is reported before the run times out. If the
/// recipe's value is 0, the result is 0, which means no limit.
double watchdog_seconds(const Recipe& recipe, double seconds);

/// Runs the variant with threads of this process as ranks. An exception becomes the outcome's error.
Outcome run_in_threads(const Subject& subject, const Oracle& oracle, const Variant& variant, const ThreadRuns& how,
                       const Sabotage& sabotage = {});

}  // namespace hexad::verify
