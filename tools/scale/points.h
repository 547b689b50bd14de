// Points of an experiment: every existing combination of ranks and values, with its recipe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/scale/experiment.h"
#include "tools/train/recipe/extensions.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::scale {

struct Point {
  std::string name;  // name of its folder, such as "ranks-4_ep-2"
  int64_t ranks = 1;
  std::vector<std::string> values{};        // names of the values, in the order of ExperimentConfig::vary
  std::vector<std::string> overrides{};     // overrides of the recipe, without the overrides of a single run
  std::string cluster{};                    // path of the cluster file; empty: none
  std::vector<std::string> cluster_set{};   // overrides of the cluster file
  std::string launcher{};                   // launcher given by the experiment; empty: the default
  int64_t max_ranks = 0;                    // ranks that are available to the point; 0: unknown
  int64_t ranks_per_node = 0;               // ranks on each node; 0: unknown, or all ranks are on one node
  std::map<std::string, std::string> at{};  // experiment key of each override, such as "set.0", by recipe key
};

/// Returns the points; ranks vary slowest. Does not read recipes. Replaces the variables $ranks and $NAME of each axis.
/// Adds a problem to the experiment for points with the same name and for numbers of ranks that occur twice.
std::vector<Point> points_of(Experiment& experiment);

/// Returns `text` with each $NAME replaced by its value. Uses the longest name if several names match. Other text does
/// not change.
std::string with_variables(const std::string& text, const std::map<std::string, std::string>& values);

/// Returns the overrides of a point's run: the overrides of the point, the number of steps, and the run directory.
std::vector<std::string> overrides_of_run(const ExperimentConfig& config, const Point& point,
                                          const std::string& run_dir);

/// A point whose recipe has been read.
struct LoadedPoint {
  Point point;
  train::Recipe recipe;
};

/// Reads the recipe of every point, with the override that makes the problem grow with the ranks. Adds a problem to the
/// experiment for each point that is illegal or equals an earlier point. Also adds a problem for each number of ranks
/// above the `max_ranks` of a point. Then calls `check_legal` with the legal points; `check_legal` may also add
/// problems. Throws config::RecipeError with all problems if there are any, and Error(usage) if there are no points.
std::vector<LoadedPoint> load_points(Experiment& experiment, std::vector<Point> points,
                                     const train::Extensions& extensions,
                                     const std::function<void(const std::vector<LoadedPoint>&)>& check_legal = {});

}  // namespace hexad::scale
