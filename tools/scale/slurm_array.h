// Slurm array jobs that execute the runs of an experiment.
#pragma once

#include <string>
#include <vector>

#include "tools/scale/order.h"
#include "tools/scale/points.h"

namespace hexad::scale {

/// Parameters of an array job, which executes the runs of one repeat that need the same number of nodes. Each run is a
/// task.
struct SlurmArray {
  int64_t repeat = 1, nodes = 1, ranks_per_node = 1;
  int64_t threads = 0;           // threads of a rank: maximum over the points; 0: every point has train.threads: auto
  int64_t gpus_per_node = 0;     // requested GPUs of a node; 0: no point computes on GPUs
  int64_t first_run = 0;         // index of the repeat's first run in the order of all runs
  std::vector<int64_t> tasks{};  // ascending indices of the runs, counted from first_run
};

/// Groups runs by their repeat and number of nodes, ordered by repeat, then nodes. As far as resources are free, Slurm
/// starts arrays in the order of their submission. It starts the tasks of an array in the order of their indices.
/// Therefore, usually all points run once before any point runs again. `order` is the order of all runs. `indices` are
/// the ascending indices in `order` of the runs to execute.
std::vector<SlurmArray> arrays_of(const std::vector<LoadedPoint>& points, const std::vector<Execution>& order,
                                  const std::vector<int64_t>& indices);

/// Returns the sbatch script of an array. `program` and the overrides are words of the script's command.
std::string slurm_script(const SlurmArray& array, const Experiment& experiment, const std::string& program,
                         const std::vector<std::string>& overrides, const std::string& working_directory);

/// Returns indices as a list of ranges, for --array: "0-2,5".
std::string ranges_text(const std::vector<int64_t>& indices);

}  // namespace hexad::scale
