// A scaling experiment as described by its YAML file: a recipe, varying settings, and settings for execution.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/constraints.h"
#include "framework/config/document.h"
#include "framework/config/problems.h"

namespace hexad::scale {

/// Growth of the problem with the number of ranks, relative to the experiment's smallest number of ranks.
///   - strong: none
///   - weak: batch.global grows
///   - context: model.context grows
///   - experts: model.moe.experts grows
enum class Scaling : uint8_t { strong, weak, context, experts };
constexpr auto enum_names(Scaling) {
  return std::to_array<std::pair<Scaling, std::string_view>>({{Scaling::strong, "strong"},
                                                              {Scaling::weak, "weak"},
                                                              {Scaling::context, "context"},
                                                              {Scaling::experts, "experts"}});
}

/// Value of an axis that sets several keys, or that exists only on some numbers of ranks.
struct ChoiceConfig {
  std::string name;
  std::vector<std::string> set;
  int64_t from_ranks = 1, to_ranks = 0;

  bool exists_on(int64_t ranks) const { return ranks >= from_ranks && (to_ranks == 0 || ranks <= to_ranks); }

  template <class V>
  void fields(V& v) {
    using config::at_least;
    v("name", name, "name of the value in tables and folders", config::non_empty());
    v("set", set, "overrides of the recipe, key.path=value");
    v("from_ranks", from_ranks, "smallest number of ranks with this value", at_least(1));
    v("to_ranks", to_ranks, "largest number of ranks with this value; 0: no limit", at_least(0));
  }
};

/// A setting that varies. Exactly one of `values` and `choices` is set.
struct AxisConfig {
  std::string name, key;
  std::vector<std::string> values;
  std::vector<ChoiceConfig> choices;

  template <class V>
  void fields(V& v) {
    v("name", name, "column of the tables; $NAME in other texts of the experiment is replaced by the value",
      config::non_empty());
    v("key", key, "key of the recipe that takes the values; empty: the values only replace $NAME");
    v("values", values, "values of the key");
    v("choices", choices, "named values, each of which sets any number of keys; replaces `values`");
  }
};

struct ExperimentConfig {
  std::string recipe, dir, cluster, launcher;
  std::vector<std::string> set, cluster_set;
  Scaling scaling = Scaling::strong;
  std::vector<int64_t> ranks;
  std::vector<AxisConfig> vary;
  int64_t repeats = 3, steps = 20, warmup_steps = 5, seed = 1;
  int64_t at_once = 1, max_ranks = 0, ranks_per_node = 0;
  double minutes = 10, max_node_hours = 0;

  int64_t steps_of_run() const { return warmup_steps + steps; }

  template <class V>
  void fields(V& v) {
    using config::at_least;
    v("recipe", recipe, "recipe of all points; relative to the folder of this file", config::file_path,
      config::non_empty());
    v("dir", dir, "folder of the results; relative to the working directory", config::file_path, config::non_empty());
    v("set", set, "overrides of the recipe at all points, key.path=value");
    v("scaling", scaling,
      "growth of the problem with the ranks: strong (none), weak (batch.global), context (model.context) or experts "
      "(model.moe.experts)");
    v("ranks", ranks, "numbers of ranks; $ranks in other texts is replaced by the number", config::non_empty(),
      at_least(1), config::at_most(1 << 20));
    v("vary", vary, "settings that vary; the points are all combinations of their values and of ranks");
    v("repeats", repeats, "number of runs of each point", at_least(1), config::at_most(1000));
    v("steps", steps, "number of measured steps of each run", at_least(1), config::at_most(1e9));
    v("warmup_steps", warmup_steps, "number of first steps of each run that are not measured", at_least(1),
      config::at_most(1e9));
    v("seed", seed, "seed of the order in which points run", at_least(0));
    v("cluster", cluster, "cluster file for predictions, relative to the folder of this file; empty: no predictions",
      config::file_path);
    v("cluster_set", cluster_set, "overrides of the cluster file, key.path=value");
    v("launcher", launcher,
      "command that starts the ranks of a point, without the program's name; empty: mpirun, or srun in a Slurm "
      "allocation");
    v("at_once", at_once,
      "largest number of runs that execute at the same time, each on its own cores (train.threads for each rank) or, "
      "in a Slurm allocation, on its own nodes; 1: one after the other",
      at_least(1), config::at_most(4096));
    v("max_ranks", max_ranks,
      "number of available ranks; 0: the ranks of the cluster file or of the Slurm allocation, whichever are fewer; "
      "without either of them, the number is unknown",
      at_least(0));
    v("ranks_per_node", ranks_per_node,
      "number of ranks on a node; 0: the number in the cluster file; without a cluster file, all ranks are on one node",
      at_least(0));
    v("minutes", minutes, "longest duration of a run in minutes; longer runs are ended", config::positive(),
      config::at_most(365 * 24 * 60));
    v("max_node_hours", max_node_hours, "largest number of node-hours that --submit may request; 0: no limit",
      at_least(0));
  }
};

/// An experiment and the positions of its keys in the file.
struct Experiment {
  std::string path;
  ExperimentConfig config;
  config::Problems problems;  // has the positions of the keys; later checks add problems

  /// Converts `file`, a path relative to the folder of the experiment file, to a path relative to the working
  /// directory.
  std::string beside(const std::string& file) const;
};

/// Reads an experiment file. Throws config::RecipeError that lists problems of the file with file and line. Rules
/// between keys are checked only if each key has a legal value.
Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides = {});
/// Reads an experiment from the text of a file, like load_experiment(). Messages name the file `path`.
Experiment parse_experiment(std::string_view text, const std::string& path);

}  // namespace hexad::scale
