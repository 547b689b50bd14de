#include "tools/plan/time_to_save.h"

#include <fmt/format.h>

#include "tools/plan/checkpoint_estimate.h"
#include "tools/train/launch.h"

namespace hexad::plan {

using namespace train;

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

double estimate_save(const Recipe& recipe, const Extensions& extensions) {
  return estimate_write(recipe.run.dir, checkpoint_bytes(recipe, extensions)).most;
}

}  // namespace hexad::plan
