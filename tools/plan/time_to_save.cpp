#include "tools/plan/time_to_save.h"

#include <fmt/format.h>

#include "framework/telemetry/units.h"
#include "tools/plan/checkpoint_estimate.h"
#include "tools/train/launch.h"

namespace hexad::plan {

using namespace train;

int64_t advised_patience(double seconds) {
  // Round numbers, so that the advice does not change with every measurement.
  for (const int64_t advice : {5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800})
    if (1.5 * seconds + 2 <= static_cast<double>(advice)) return advice;
  return 3600;
}

std::string launcher_to_train(int64_t ranks, double save_seconds) {
  std::string text = launcher(ranks);
  if (!in_slurm_allocation()) text += fmt::format(" --mca {} {}", patience_parameter, advised_patience(save_seconds));
  return text;
}

std::string explain_launcher() {
  if (in_slurm_allocation())
    return "  it saves before the time limit if sbatch announces that with --signal=USR1@SECONDS";
  return fmt::format(
      "  {}, as {} in the environment: seconds that mpirun leaves for a save between SIGTERM (Ctrl-C) and SIGKILL",
      patience_parameter, patience_variable);
}

std::string warn_of_short_patience(const Recipe& recipe, const Extensions& extensions) {
  const std::optional<double> patience = mpirun_patience();
  if (!patience) return {};
  const double seconds = estimate_write(recipe.run.dir, checkpoint_bytes(recipe, extensions)).seconds;
  if (seconds <= *patience) return {};
  const int64_t advice = advised_patience(seconds);
  return fmt::format(
      "a save takes about {}, but {:g} s after its SIGTERM (Ctrl-C) mpirun kills the ranks, saved or not: start it "
      "after "
      "`export {}={}`, or stop it by SIGUSR1 to mpirun, which waits",
      telemetry::human_duration(seconds), *patience, patience_variable, advice);
}

}  // namespace hexad::plan
