#include "tools/scale/points.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/base/error.h"
#include "framework/config/recipe_error.h"
#include "framework/config/typed_recipe.h"
#include "tools/train/recipe/renamed_keys.h"

namespace hexad::scale {

using base::cat;

namespace {

// Returns `text` with '-' in place of each character that is inconvenient in a folder name.
std::string folder_word(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '+';
    out += plain ? c : '-';
  }
  return out;
}

struct Value {
  std::string name;
  std::vector<std::string> set;
  std::string at;  // key of the experiment that gives the value
};

std::vector<Value> values_of(const AxisConfig& axis, size_t number, int64_t ranks) {
  std::vector<Value> values;
  for (size_t i = 0; i < axis.values.size(); ++i) {
    std::vector<std::string> set;
    if (!axis.key.empty()) set.push_back(cat(axis.key, "=", axis.values[i]));
    values.push_back({axis.values[i], std::move(set), cat("vary.", number, ".values.", i)});
  }
  for (size_t i = 0; i < axis.choices.size(); ++i)
    if (axis.choices[i].exists_on(ranks))
      values.push_back({axis.choices[i].name, axis.choices[i].set, cat("vary.", number, ".choices.", i)});
  return values;
}

void add_override(Point& point, const std::string& text, const std::string& at) {
  point.overrides.push_back(text);
  point.at[text.substr(0, text.find('='))] = at;
}

Point point_of(const Experiment& e, int64_t ranks, const std::vector<Value>& values) {
  const ExperimentConfig& c = e.config;
  Point point{.name = cat("ranks-", ranks), .ranks = ranks};
  std::map<std::string, std::string> variables{{"ranks", std::to_string(ranks)}};
  for (size_t a = 0; a < values.size(); ++a) {
    point.values.push_back(values[a].name);
    point.name += cat("_", c.vary[a].name, "-", folder_word(values[a].name));
    variables[c.vary[a].name] = values[a].name;
  }
  const auto replaced = [&](const std::string& text) { return with_variables(text, variables); };
  for (size_t i = 0; i < c.set.size(); ++i) add_override(point, replaced(c.set[i]), cat("set.", i));
  for (const Value& value : values)
    for (const std::string& text : value.set) add_override(point, replaced(text), value.at);
  if (!c.cluster.empty()) point.cluster = e.beside(replaced(c.cluster));
  for (const std::string& text : c.cluster_set) point.cluster_set.push_back(replaced(text));
  point.launcher = replaced(c.launcher);
  return point;
}

// Appends the points with `ranks` ranks. `chosen` has the values of the first axes.
void add_points(const Experiment& e, int64_t ranks, std::vector<Value>& chosen, std::vector<Point>& points) {
  if (chosen.size() == e.config.vary.size()) return points.push_back(point_of(e, ranks, chosen));
  for (Value& value : values_of(e.config.vary[chosen.size()], chosen.size(), ranks)) {
    chosen.push_back(std::move(value));
    add_points(e, ranks, chosen, points);
    chosen.pop_back();
  }
}

// Returns the key of the problem size that grows with the ranks, and its value in the recipe.
std::pair<std::string, int64_t> growing_size(Scaling scaling, const train::Recipe& recipe) {
  switch (scaling) {
    case Scaling::weak:
      return {"batch.global", recipe.batch.global};
    case Scaling::context:
      return {"model.context", recipe.model.context};
    case Scaling::experts:
      return {"model.moe.experts", recipe.model.moe.experts};
    case Scaling::strong:
      break;
  }
  return {};
}

// Returns the experiment's key to which a problem of a point's recipe is attributed: the key with the override, or
// `recipe`.
std::string blamed(const Point& point, const std::string& source) {
  if (!source.starts_with(config::command_line_source)) return "recipe";
  const std::string text = source.substr(config::command_line_source.size());
  const auto found = point.at.find(text.substr(0, text.find('=')));
  return found == point.at.end() ? "recipe" : found->second;
}

bool lacks_ranks(const Point& point) { return point.max_ranks > 0 && point.ranks > point.max_ranks; }

// Adds a problem for each number of ranks that exceeds the ranks available to its points. Points with different
// clusters may have different numbers of available ranks.
void add_missing_ranks(Experiment& experiment, const std::vector<Point>& points) {
  const std::vector<int64_t>& numbers = experiment.config.ranks;
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::set<int64_t> available;
    for (const Point& point : points)
      if (point.ranks == numbers[i] && lacks_ranks(point)) available.insert(point.max_ranks);
    for (const int64_t most : available)
      experiment.problems.add(cat("ranks.", i), cat("is more than the ", most, " available ranks; nearest: ", most));
  }
}

class Loader {
 public:
  Loader(Experiment& experiment, const train::Extensions& extensions)
      : experiment_(experiment), extensions_(extensions), path_(experiment.beside(experiment.config.recipe)) {}

  std::optional<LoadedPoint> load(Point point) {
    try {
      grow(point);
      train::Recipe recipe = train::load_to_train(document_of(point, "point"), extensions_, point.ranks);
      if (!recipe.stages.empty())
        base::fail(
            base::ExitCode::usage, path_,
            ": stages is not empty; expected a recipe without stages, because an experiment measures a single stage");
      return LoadedPoint{std::move(point), std::move(recipe)};
    } catch (const config::RecipeError& e) {
      for (const config::RecipeProblem& p : e.problems()) report(point, p);
    } catch (const base::Error& e) {
      add(point, "recipe", e.what());
    }
    return std::nullopt;
  }

  void add(const Point& point, const std::string& key, const std::string& what) {
    const config::Problems::Known& known = experiment_.problems.known().at(key);
    experiment_.problems.report(known.at, "", cat(point.name, ": ", what));
  }

 private:
  config::Document document_of(const Point& point, const std::string& run_dir) const {
    config::Document document = config::load(path_, overrides_of_run(experiment_.config, point, run_dir));
    train::rename_keys(document);
    return document;
  }

  void grow(Point& point) const {
    const ExperimentConfig& c = experiment_.config;
    const int64_t times = point.ranks / *std::ranges::min_element(c.ranks);
    if (c.scaling == Scaling::strong || times == 1) return;
    config::Problems ignored;  // reading the recipe with the grown size finds these problems, too
    const auto recipe = config::read<train::Recipe>(document_of(point, "point"), ignored);
    const auto [key, size] = growing_size(c.scaling, recipe);
    add_override(point, cat(key, "=", size * times), "scaling");
  }
  void report(const Point& point, const config::RecipeProblem& p) {
    const std::string where = p.source.starts_with(config::command_line_source) || p.line == 0
                                  ? std::string()
                                  : cat(p.source, ":", p.line, ": ");
    add(point, blamed(point, p.source), where + p.message);
  }

  Experiment& experiment_;
  const train::Extensions& extensions_;
  const std::string path_;
};

}  // namespace

std::string with_variables(const std::string& text, const std::map<std::string, std::string>& values) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const std::pair<const std::string, std::string>* found = nullptr;
    if (text[i] == '$')
      for (const auto& entry : values)  // names ascend, so a longer name follows its prefixes
        if (text.compare(i + 1, entry.first.size(), entry.first) == 0) found = &entry;
    out += found ? found->second : text.substr(i, 1);
    i += found ? found->first.size() + 1 : 1;
  }
  return out;
}

std::vector<Point> points_of(Experiment& experiment) {
  std::vector<Point> points;
  std::set<std::string> names;
  std::set<int64_t> numbers;
  for (size_t r = 0; r < experiment.config.ranks.size(); ++r) {
    const int64_t ranks = experiment.config.ranks[r];
    if (!numbers.insert(ranks).second) {
      experiment.problems.add(cat("ranks.", r), "is a number that occurs twice; expected each number once");
      continue;
    }
    std::vector<Value> chosen;
    const size_t before = points.size();
    add_points(experiment, ranks, chosen, points);
    for (size_t i = before; i < points.size(); ++i)
      if (!names.insert(points[i].name).second)
        experiment.problems.add("vary",
                                cat("gives the same name to two points: ", points[i].name, "; expected unique names"));
  }
  return points;
}

std::vector<std::string> overrides_of_run(const ExperimentConfig& config, const Point& point,
                                          const std::string& run_dir) {
  std::vector<std::string> out = point.overrides;
  out.push_back(cat("train.steps=", config.steps_of_run()));
  out.push_back(cat("run.dir=", run_dir));
  return out;
}

std::vector<LoadedPoint> load_points(Experiment& experiment, std::vector<Point> points,
                                     const train::Extensions& extensions,
                                     const std::function<void(const std::vector<LoadedPoint>&)>& check_legal) {
  Loader loader(experiment, extensions);
  add_missing_ranks(experiment, points);
  std::map<std::string, std::string> names_by_content;
  std::vector<LoadedPoint> loaded;
  for (Point& point : points) {
    if (lacks_ranks(point)) continue;
    std::optional<LoadedPoint> one = loader.load(std::move(point));
    if (!one) continue;
    std::string content = cat(one->point.ranks, "\n", one->point.launcher, "\n", config::write(one->recipe));
    const auto [first, is_new] = names_by_content.emplace(std::move(content), one->point.name);
    if (!is_new)
      loader.add(one->point, "vary",
                 cat("gives the same run as ", first->second, "; expected a different run for each point"));
    loaded.push_back(std::move(*one));
  }
  if (check_legal) check_legal(loaded);
  experiment.problems.throw_if_any();
  if (loaded.empty())
    base::fail(base::ExitCode::usage, experiment.path,
               ": the experiment has no points; expected a number of ranks for which every axis has a value");
  return loaded;
}

}  // namespace hexad::scale
