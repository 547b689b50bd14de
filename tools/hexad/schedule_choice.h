// Chooses what the recipe leaves open (`auto`) of the MoE layers' schedule: the simulator prices the graphs of every
// legal schedule, the cheapest ones are tried in steps of the run itself. Trying loses nothing, as every schedule
// computes the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/hexad/schedule_trace.h"

namespace hexad::app {

struct ScheduleCandidate {
  moe::MoeSchedule schedule;
  /// Seconds of one MoE layer's forward and backward on the slowest rank.
  double predicted = 0;
  std::vector<double> measured{};  // the same, by trial

  /// The median; 0 before the first trial.
  double measured_seconds() const;
};

/// Every legal schedule of the recipe, in the order of legal_schedules(), as the simulator prices it on the graphs of
/// all ranks. Leaves the last one set. Collective over `world`.
std::vector<ScheduleCandidate> predicted_schedules(const Recipe& recipe, ModelInstance& instance,
                                                   const Predictor& predictor, const comm::ProcessGroup& world);
/// Sets it in all MoE layers.
void set_schedule(ModelInstance& instance, const moe::MoeSchedule& schedule);
/// What ScheduleCandidate::predicted predicts, of a step's passes on this rank: means over layers and micro-batches.
double measured_seconds(const std::vector<PassRecorder::Pass>& passes);

class ScheduleChoice {
 public:
  /// Collective, as are all members but to_string(). Predicts every legal schedule of the recipe and sets the fastest
  /// one in the model.
  ScheduleChoice(const Recipe& recipe, ModelInstance& instance, const Predictor& predictor,
                 const comm::ProcessGroup& world);

  /// Takes what a checkpoint says was chosen, a text of to_string(MoeSchedule). False when the recipe does not allow it
  /// (any more).
  bool take(const std::string& chosen);

  bool made() const { return turn_ == turns_; }
  /// Ascending by prediction; but the schedule of a recipe that leaves nothing open is among those that are tried.
  const std::vector<ScheduleCandidate>& candidates() const { return candidates_; }
  /// The one that is set in the model.
  const ScheduleCandidate& current() const { return candidates_[current_]; }
  int64_t trials_left() const { return turns_ - turn_; }

  /// Before a step of trial: sets the schedule whose turn it is.
  void begin_trial();
  /// After it, with what the step's passes took here; with the last trial the choice is made.
  void end_trial(const std::vector<PassRecorder::Pass>& passes);

  /// "duplicates drop, ...: predicted 1.20 ms, measured 1.00 ms (+20.0%)".
  static std::string to_string(const ScheduleCandidate& candidate);

 private:
  void set(size_t candidate);

  ModelInstance& instance_;
  const comm::ProcessGroup& world_;
  std::vector<ScheduleCandidate> candidates_;
  size_t current_ = 0;
  int64_t finalists_ = 1, turn_ = 0, turns_ = 0;  // trials done, and all of them
};

}  // namespace hexad::app
