// Slurm array jobs that run the points of an experiment.
#pragma once

#include <string>
#include <vector>

#include "tools/scale/points.h"

namespace hexad::scale {

/// Parameters of an array job, which runs the points with the same number of nodes.
struct SlurmArray {
  int64_t nodes = 1, ranks_per_node = 1;
  int64_t threads = 0;          // threads of a rank: maximum over the points; 0: every point has train.threads: auto
  int64_t gpus_per_node = 0;    // 0: no point computes on GPUs
  std::vector<int64_t> points;  // ascending indices
};

/// Groups the points with these indices by their number of nodes.
std::vector<SlurmArray> arrays_of(const std::vector<LoadedPoint>& points, const std::vector<int64_t>& indices);

/// Returns the sbatch script of an array. `program` and the overrides are words of its command.
std::string slurm_script(const SlurmArray& array, const Experiment& experiment, const std::string& program,
                         const std::vector<std::string>& overrides, const std::string& working_directory);

/// Returns indices as a list of ranges, for --array: "0-2,5".
std::string ranges_text(const std::vector<int64_t>& indices);

}  // namespace hexad::scale
