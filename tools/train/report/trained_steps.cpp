#include "tools/train/report/trained_steps.h"

#include "tools/train/checkpoint/run_directory.h"

namespace hexad::train {

TrainedSteps trained_steps(const std::filesystem::path& dir) {
  require_run_directory(dir.string());
  TrainedSteps run{telemetry::read_metrics(dir / "metrics.jsonl"), read_history(dir), dir / "recipe.yaml"};
  auto& starts = run.history.starts;
  const int64_t last = run.metrics.steps.empty() ? 0 : run.metrics.steps.back().step;
  std::erase_if(starts, [&](const RunStart& s) { return s.run.first_step >= last; });
  if (!starts.empty() && std::filesystem::is_regular_file(recipe_of_start(dir, starts.back())))
    run.recipe = recipe_of_start(dir, starts.back());
  return run;
}

std::string folder_name(const std::filesystem::path& dir) {
  const auto path = std::filesystem::weakly_canonical(dir);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace hexad::train
