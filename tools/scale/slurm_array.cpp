#include "tools/scale/slurm_array.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "tools/scale/point_forecast.h"
#include "tools/train/process/machine.h"

namespace hexad::scale {

std::vector<SlurmArray> arrays_of(const std::vector<LoadedPoint>& points, const std::vector<Execution>& order,
                                  const std::vector<int64_t>& indices) {
  std::map<std::pair<int64_t, int64_t>, SlurmArray> by_repeat_and_nodes;
  for (const int64_t i : indices) {
    const Execution& run = order.at(i);
    const Point& point = points.at(run.point).point;
    const train::Recipe& recipe = points.at(run.point).recipe;
    const int64_t nodes = nodes_of(point);
    SlurmArray& array = by_repeat_and_nodes[{run.repeat, nodes}];
    array.repeat = run.repeat;
    array.nodes = nodes;
    array.first_run = (run.repeat - 1) * std::ssize(points);
    array.ranks_per_node = std::max(array.ranks_per_node, (point.ranks - 1) / nodes + 1);
    array.threads = std::max(array.threads, recipe.train.threads.value_or(0));
    if (recipe.device == device::DeviceKind::cuda) array.gpus_per_node = array.ranks_per_node;
    array.tasks.push_back(i - array.first_run);
  }
  std::vector<SlurmArray> out;
  for (auto& [key, array] : by_repeat_and_nodes) out.push_back(std::move(array));
  return out;
}

std::string ranges_text(const std::vector<int64_t>& indices) {
  std::string out;
  for (size_t begin = 0, end = 0; begin < indices.size(); begin = end) {
    for (end = begin + 1; end < indices.size() && indices[end] == indices[end - 1] + 1;) ++end;
    out += fmt::format("{}{}", out.empty() ? "" : ",", indices[begin]);
    if (end - begin > 1) out += fmt::format("-{}", indices[end - 1]);
  }
  return out;
}

std::string slurm_script(const SlurmArray& array, const Experiment& experiment, const std::string& program,
                         const std::vector<std::string>& overrides, const std::string& working_directory) {
  const std::filesystem::path folder = std::filesystem::absolute(experiment.config.dir).lexically_normal();
  std::string command = fmt::format("{} scale {}", train::shell_word(program), train::shell_word(experiment.path));
  for (const std::string& text : overrides) command += fmt::format(" {}", train::shell_word(text));
  std::string resources;
  if (array.threads > 0) resources += fmt::format("#SBATCH --cpus-per-task={}\n", array.threads);
  if (array.gpus_per_node > 0) resources += fmt::format("#SBATCH --gpus-per-node={}\n", array.gpus_per_node);
  // The signal lets a run end with exit code 75 before the time limit, so that the job is requeued. A run saves
  // nothing, so a short time suffices. Slurm may send the signal up to a minute too early.
  return fmt::format(
      "#!/bin/bash\n"
      "# Repeat {} of the points of {} that need {}. Submit this script with sbatch.\n"
      "#SBATCH --job-name=hexad-scale\n"
      "#SBATCH --array={}\n"
      "#SBATCH --nodes={}\n"
      "#SBATCH --ntasks-per-node={}\n"
      "#SBATCH --exclusive\n"
      "{}"
      "#SBATCH --time={}\n"
      "#SBATCH --signal=USR1@60\n"
      "#SBATCH --requeue --open-mode=append\n"
      "#SBATCH --output={}\n"
      "cd {} || exit 4\n"
      "{} --run \"$((SLURM_ARRAY_TASK_ID + {}))\"\n"
      "code=$?\n"
      "[ $code -ne 75 ] || scontrol requeue \"$SLURM_JOB_ID\" # not needed if slurm.conf has RequeueExit=75\n"
      "exit $code\n",
      array.repeat, experiment.path, base::counted(array.nodes, "node"), ranges_text(array.tasks), array.nodes,
      array.ranks_per_node, resources, max_minutes_of_run(experiment.config),
      train::shell_word((folder / "slurm-%A_%a.txt").string()), train::shell_word(working_directory), command,
      array.first_run);
}

}  // namespace hexad::scale
