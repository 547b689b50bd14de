// Runs the subject in one layout and compares the results with the oracle.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "parallel/comm/message_plan.h"
#include "tools/verify/subject.h"
#include "tools/verify/training_run.h"

namespace hexad::verify {

/// Hooks with which tests plant bugs, to check that verify finds these bugs. Recipes and command lines cannot set
/// hooks. Outside of tests, only the fault of inject_gradient_fault() can be planted, by the environment variable
/// HEXAD_FAULT.
class Sabotage {
 public:
  virtual ~Sabotage() = default;
  /// Returns a world whose groups communicate wrongly, and which replaces the given world. Null: the run uses the given
  /// world. The given world outlives the result.
  virtual std::unique_ptr<comm::ProcessGroup> groups(const comm::ProcessGroup&, const MeshSizes&) const {
    return nullptr;
  }
  /// Returns the function that splits collectives into messages. Used by ranks with a communication engine.
  virtual comm::MakeMessagePlan plan() const { return comm::make_message_plan; }
  /// Returns wrong data that replace the given data on this rank. Null: the run uses the given data.
  virtual std::unique_ptr<data::Source> data(const data::Source&, const TrainingRun&) const { return nullptr; }
  virtual void initialized(TrainingRun&) const {}
  virtual void loaded(TrainingRun&) const {}
  virtual void before_step(TrainingRun&) const {}
  /// Called after the gradients are reduced and before they are used.
  virtual void reduced(TrainingRun&) const {}
  virtual void after_step(TrainingRun&, StepResult&) const {}
  /// Like data(), for the held-out text.
  virtual std::unique_ptr<data::Source> heldout(const data::Source&, const TrainingRun&) const { return nullptr; }
};

struct Outcome {
  Variant variant;
  Comparison comparison{};
  std::string error{};  // reason why there is no comparison
  double seconds = 0;

  /// True if the run ended without an error and some of its results were compared.
  bool compares() const { return error.empty() && comparison.compared.something(); }
  bool agrees() const { return compares() && comparison.mismatches.empty(); }
};

/// Runs this rank's part of the variant and returns the comparison, which is equal on all ranks. Collective over the
/// variant's ranks. Throws the exceptions of training.
Comparison run_on_rank(const Subject& subject, const Oracle& oracle, const Variant& variant,
                       const comm::ProcessGroup& world, const Sabotage& sabotage = {});

/// Like run_on_rank(), but with Variant::kernel_threads() kernel threads and toy_blocks. Returns an outcome with the
/// comparison.
Outcome run_in_world(const Subject& subject, const Oracle& oracle, const Variant& variant,
                     const comm::ProcessGroup& world);

/// Maximum injected delay of one operation or message.
inline constexpr std::chrono::microseconds longest_delay{300};

struct ThreadRuns {
  // Seed of injected delays and of a ThreadNetwork's adversary; none: no delays, and seed 1 for the adversary.
  std::optional<uint64_t> jitter;
  double seconds = 240;  // time limit of a run
};
/// Returns the largest time, in seconds, that an operation of a run may wait for other ranks; 0: no limit. The result
/// is distributed.watchdog_seconds, but at most a quarter of `seconds`, so that a hang is reported before the run times
/// out. If the key is 0, the result is 0.
double watchdog_seconds(const Recipe& recipe, double seconds);

/// Runs the variant with threads of this process as ranks. Reports an exception in Outcome::error.
Outcome run_in_threads(const Subject& subject, const Oracle& oracle, const Variant& variant, const ThreadRuns& how,
                       const Sabotage& sabotage = {});

}  // namespace hexad::verify
