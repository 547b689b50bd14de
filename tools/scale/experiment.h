// A scaling experiment as its YAML file describes it: a recipe, what varies, and how each point is run.
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

/// Growth of the problem with the number of ranks, relative to the smallest number of the experiment.
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

/// Value of an axis that sets several keys, or that does not exist on all numbers of ranks.
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
    v("to_ranks", to_ranks, "largest number of ranks with this value; 0: any", at_least(0));
  }
};

/// A setting that varies. It has either `values` or `choices`.
struct AxisConfig {
  std::string name, key;
  std::vector<std::string> values;
  std::vector<ChoiceConfig> choices;

  template <class V>
  void fields(V& v) {
    v("name", name, "column of the tables; $NAME stands for the value in other texts of the experiment",
      config::non_empty());
    v("key", key, "key of the recipe that takes the values; empty: only $NAME takes them");
    v("values", values, "values of the key");
    v("choices", choices, "named values that set any number of keys, instead of values");
  }
};

struct ExperimentConfig {
  std::string recipe, dir, cluster, launcher;
  std::vector<std::string> set, cluster_set;
  Scaling scaling = Scaling::strong;
  std::vector<int64_t> ranks;
  std::vector<AxisConfig> vary;
  int64_t repeats = 3, steps = 20, warmup_steps = 5, seed = 1;
  int64_t max_ranks = 0, ranks_per_node = 0;
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
    v("ranks", ranks, "numbers of ranks; $ranks stands for the number in other texts", config::non_empty(), at_least(1),
      config::at_most(1 << 20));
    v("vary", vary, "settings that vary; the points are all combinations of their values and of ranks");
    v("repeats", repeats, "runs of each point", at_least(1), config::at_most(1000));
    v("steps", steps, "measured steps of a run", at_least(1));
    v("warmup_steps", warmup_steps, "first steps of a run, which are not measured", at_least(1));
    v("seed", seed, "seed of the order in which points run", at_least(0));
    v("cluster", cluster, "cluster file for predictions, relative to the folder of this file; empty: no predictions",
      config::file_path);
    v("cluster_set", cluster_set, "overrides of the cluster file");
    v("launcher", launcher,
      "command that starts the ranks of a point, before the program's name; empty: mpirun, or srun in a Slurm "
      "allocation");
    v("max_ranks", max_ranks, "ranks that there are; 0: those of the cluster file, or unknown without one",
      at_least(0));
    v("ranks_per_node", ranks_per_node, "ranks on a node; 0: that of the cluster file, or all on one node",
      at_least(0));
    v("minutes", minutes, "longest duration of a run, after which it is ended", config::positive());
    v("max_node_hours", max_node_hours, "largest number of nodes times hours that --submit may request; 0: any",
      at_least(0));
  }
};

/// An experiment with the positions of its keys.
struct Experiment {
  std::string path;
  ExperimentConfig config;
  config::Problems problems;  // knows the keys; further problems are added to it

  /// Returns a path of the experiment file relative to the working directory.
  std::string beside(const std::string& file) const;
};

/// Reads an experiment file. Throws config::RecipeError with every problem of the file, each with file and line.
Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides = {});
/// Like load_experiment(), for a text. `path` names it in messages.
Experiment parse_experiment(std::string_view text, const std::string& path);

}  // namespace hexad::scale
