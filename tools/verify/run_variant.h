// One run of the subject on one layout, beside the oracle.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "parallel/comm/message_plan.h"
#include "tools/verify/subject.h"
#include "tools/verify/training_run.h"

namespace hexad::verify {

/// Seams at which tests plant bugs, to see that they are found. No recipe and no command line reaches them; HEXAD_FAULT
/// plants the one of weight_fault.h.
class Sabotage {
 public:
  virtual ~Sabotage() = default;
  /// Groups that communicate wrongly, in place of `world`, which outlives them; null: right ones.
  virtual std::unique_ptr<comm::ProcessGroup> groups(const comm::ProcessGroup&, const MeshSizes&) const {
    return nullptr;
  }
  /// Plan by which collectives become messages, if ranks have a communication engine.
  virtual comm::MakeMessagePlan plan() const { return comm::make_message_plan; }
  /// Data that this rank reads, in place of `source`; null: the right ones.
  virtual std::unique_ptr<data::Source> data(const data::Source&, const TrainingRun&) const { return nullptr; }
  virtual void initialized(TrainingRun&) const {}
  virtual void loaded(TrainingRun&) const {}
  virtual void before_step(TrainingRun&) const {}
  /// Gradients are reduced, and not yet used.
  virtual void reduced(TrainingRun&) const {}
  virtual void after_step(TrainingRun&, StepResult&) const {}
  /// Like data(), for the held-out text.
  virtual std::unique_ptr<data::Source> heldout(const data::Source&, const TrainingRun&) const { return nullptr; }
};

struct Outcome {
  Variant variant;
  Comparison comparison{};
  std::string error{};  // why there is no comparison
  double seconds = 0;

  bool agrees() const { return error.empty() && comparison.mismatches.empty() && comparison.compared.something(); }
};

/// This rank's side. Collective over the variant's ranks; the comparison is the same on all. Throws what training
/// throws.
Comparison run_on_rank(const Subject& subject, const Oracle& oracle, const Variant& variant,
                       const comm::ProcessGroup& world, const Sabotage& sabotage = {});

/// The same as an outcome.
Outcome run_in_world(const Subject& subject, const Oracle& oracle, const Variant& variant,
                     const comm::ProcessGroup& world);

/// Longest delay of one operation or message, if delays are asked for.
inline constexpr std::chrono::microseconds longest_delay{300};

struct ThreadRuns {
  std::optional<uint64_t> jitter;  // seed of delays in communication, and of what a ThreadNetwork does
  double seconds = 240;            // for a run
};
/// Seconds that an operation of a run may wait for other ranks: as the recipe says, and not longer than a quarter of
/// `seconds`, so that a hang is named before the run is given up. 0: for ever, if the recipe says so.
double watchdog_seconds(const Recipe& recipe, double seconds);

/// With threads of this process as ranks. An exception is the outcome's error.
Outcome run_in_threads(const Subject& subject, const Oracle& oracle, const Variant& variant, const ThreadRuns& how,
                       const Sabotage& sabotage = {});

}  // namespace hexad::verify
