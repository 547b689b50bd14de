// Use of the planner during a run: choice of schedule.moe, schedule.trace, and comparison with the memory estimate.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plan/schedule_choice.h"
#include "tools/train/report/schedule_adviser.h"

namespace hexad::plan {

/// True if a run of this recipe predicts schedules, because the recipe leaves a choice open or traces its schedule.
bool needs_predictions(const train::Recipe& recipe);

/// Throws Error(usage) if a stage of training needs predictions, and schedule.profile names a file that is not a valid
/// cluster file.
void require_profile(const train::Recipe& recipe);

class RunSchedule final : public train::ScheduleAdviser {
 public:
  /// Predicts the open choices of the recipe, or restores the choices stored in the checkpoint. Does neither if the
  /// recipe leaves no choice open.
  explicit RunSchedule(const train::AdvisedRun& run);

  void begin_step(int64_t step) override;
  void end_step(const train::StepResult& result, telemetry::StepMetrics& metrics) override;
  void add_to(telemetry::ReportInputs& report, const std::map<std::string, int64_t>& measured) const override;

  /// Makes an adviser for Trainer.
  static std::unique_ptr<train::ScheduleAdviser> make(const train::AdvisedRun& run);

 private:
  void choose();
  void end_trial();
  /// Stores the choice, so that checkpoints contain it.
  void remember_choice();
  /// Chooses again, for the load of the experts in this step.
  void redecide(int64_t step, const train::StepResult& result);
  void log_memory();
  void log_untried();
  /// Compares the choice with the advice of the papers. Requires that the choice is made. Without a profile, only
  /// records the choice for the metrics.
  void ask_advisers();
  /// Warns about links that the profile lacks, except for links that an earlier warning has named. `key` is the key of
  /// the recipe whose predictions assume the links.
  void warn_of_assumed(std::string_view key, std::vector<std::string> links);
  /// Gathers the recorded passes and adds them to the trace.
  void trace(telemetry::StepMetrics& metrics);
  bool leader() const { return run_.world.rank() == 0; }

  const train::AdvisedRun run_;
  const int64_t first_step_;
  std::optional<Predictor> predictor_;  // set if the run traces or chooses a schedule
  std::optional<ScheduleChoice> choice_;
  std::optional<PassRecorder> recorder_;  // set during a traced step or a trial step
  bool trial_ = false;
  std::set<std::string> named_links_;                 // links that warn_of_assumed() has named
  std::optional<telemetry::ChoiceMetrics> compared_;  // set from a choice until the end of its step
  std::vector<std::string> timelines_;                // pictures for the report
};

}  // namespace hexad::plan
