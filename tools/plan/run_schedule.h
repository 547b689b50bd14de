// The planner beside a run: schedule.moe's choice, schedule.trace, and what memory was estimated to be.
#pragma once

#include <optional>

#include "tools/plan/schedule_choice.h"
#include "tools/train/schedule_adviser.h"

namespace hexad::plan {

/// True if a run of this recipe predicts schedules: it leaves one open, or records what its schedule does.
bool needs_predictions(const train::Recipe& recipe);

/// Throws Error(usage) if predictions are needed and schedule.profile cannot be read.
void require_profile(const train::Recipe& recipe);

class RunSchedule final : public train::ScheduleAdviser {
 public:
  /// Predicts what the recipe leaves open, or takes what the checkpoint's run chose.
  explicit RunSchedule(const train::AdvisedRun& run);

  void begin_step(int64_t step) override;
  void end_step(telemetry::StepMetrics& metrics) override;
  void add_to(telemetry::ReportInputs& report, const std::map<std::string, int64_t>& measured) const override;

  /// For Trainer.
  static std::unique_ptr<train::ScheduleAdviser> make(const train::AdvisedRun& run);

 private:
  void choose();
  void end_trial();
  /// For checkpoints.
  void remember_choice();
  void log_memory();
  /// Gathers the recorded passes and writes them.
  void trace(telemetry::StepMetrics& metrics);
  bool leader() const { return run_.world.rank() == 0; }

  const train::AdvisedRun run_;
  const int64_t first_step_;
  std::optional<Predictor> predictor_;  // of a run that records its schedules, or chooses one
  std::optional<ScheduleChoice> choice_;
  std::optional<PassRecorder> recorder_;  // of a step that is traced or a trial
  bool trial_ = false;
  std::vector<std::string> timelines_;  // for the report
};

}  // namespace hexad::plan
