#include "tools/train/report/run_comparison.h"

#include <string.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/config/typed_recipe.h"
#include "framework/telemetry/report_data.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/recipe/recipe_comparison.h"
#include "tools/train/report/trained_steps.h"

namespace hexad::train {
namespace {

namespace fs = std::filesystem;

/// True if `a` comes before `b`. Numbers in names are compared by value: "run-2" comes before "run-10".
bool in_order(const fs::path& a, const fs::path& b) { return ::strverscmp(a.c_str(), b.c_str()) < 0; }

// Adds the runs in `folder` and its subfolders. Does not search inside run directories.
void add_runs_below(const fs::path& folder, std::vector<fs::path>& runs) {
  std::vector<fs::path> folders;
  try {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory() && !entry.is_symlink()) folders.push_back(entry.path());
  } catch (const fs::filesystem_error& e) {
    base::fail(base::ExitCode::usage, folder.string(), ": cannot be read: ", e.code().message());
  }
  std::ranges::sort(folders, in_order);
  for (const fs::path& inner : folders) {
    if (is_run_directory(inner))
      runs.push_back(inner);
    else
      add_runs_below(inner, runs);
  }
}

// Returns the reason why a run cannot be compared; empty if it can.
std::string trouble_of(const fs::path& dir) {
  try {
    return trained_steps(dir).metrics.steps.empty() ? "the run has trained no step" : "";
  } catch (const base::Error& e) {
    return e.what();
  }
}

void require_different(const std::vector<std::string>& dirs) {
  std::map<fs::path, std::string> seen;
  for (const std::string& dir : dirs) {
    const auto [before, is_new] = seen.try_emplace(fs::weakly_canonical(dir + "/recipe.yaml"), dir);
    if (!is_new)
      base::fail(base::ExitCode::usage, "'", dir, "' is the same run as '", before->second,
                 "', expected different runs to compare");
  }
}

// Returns the name of each folder, or the whole path if several folders have the same name.
std::vector<std::string> short_names(const std::vector<std::string>& dirs) {
  std::vector<std::string> names;
  for (const std::string& dir : dirs) names.push_back(folder_name(dir));
  for (size_t i = 0; i < dirs.size(); ++i)
    if (std::ranges::count_if(dirs, [&](const std::string& d) { return folder_name(d) == folder_name(dirs[i]); }) > 1)
      names[i] = dirs[i];
  return names;
}

// Returns the keys whose values differ between runs, in the order of the recipe. Keys that `first` lacks come last.
std::vector<std::string> differing_keys(const std::vector<telemetry::SweepRun>& runs, const Recipe& first) {
  std::vector<std::string> order;
  for (const config::Setting& s : config::settings(first)) order.push_back(s.path);
  for (const auto& run : runs)
    for (const auto& [key, value] : run.settings)
      if (std::ranges::find(order, key) == order.end()) order.push_back(key);
  std::erase_if(order, [&](const std::string& key) {
    const auto value = [&](const telemetry::SweepRun& r) {
      const auto at = r.settings.find(key);
      return at == r.settings.end() ? std::optional<std::string>() : at->second;
    };
    return std::ranges::all_of(runs, [&](const auto& r) { return value(r) == value(runs.front()); });
  });
  return order;
}

telemetry::SweepRun sweep_run(const std::string& name, const fs::path& dir, const TrainedSteps& trained) {
  if (trained.metrics.steps.empty())
    base::fail(base::ExitCode::data, (dir / "metrics.jsonl").string(),
               " contains no training step, expected at least one");
  telemetry::SweepRun run{.name = name, .folder = dir.string()};
  if (const auto& starts = trained.history.starts; !starts.empty()) {
    run.ranks = starts.back().run.ranks;
    run.layout = base::counted(run.ranks, "rank") + ": " + starts.back().layout;
  }
  const RunEnding ending = ending_of(trained.history);
  if (ending.outcome != Outcome::unknown) run.state = name_of(ending.outcome);
  run.trouble = ending.trouble;
  run.summary = telemetry::summary_of(trained.metrics, trained.newest_start());
  run.columns = telemetry::report_data(trained.metrics);
  return run;
}

}  // namespace

bool is_folder_of_runs(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error) && !is_run_directory(path);
}

std::vector<std::string> find_runs(const std::vector<std::string>& arguments,
                                   const std::function<void(const std::string&)>& warn) {
  std::vector<std::string> runs;
  for (const std::string& argument : arguments) {
    if (!is_folder_of_runs(argument)) {
      require_run_directory(argument);
      runs.push_back(argument);
      continue;
    }
    std::vector<fs::path> below;
    add_runs_below(argument, below);
    if (below.empty())
      base::fail(base::ExitCode::usage, "'", argument,
                 "' is not a run directory: neither this folder nor any folder below has a recipe.yaml; expected the "
                 "folder of a run of `hexad train`");
    const size_t before = runs.size();
    for (const fs::path& run : below) {
      const std::string trouble = trouble_of(run);
      if (trouble.empty())
        runs.push_back(run.string());
      else
        warn(base::cat(run.string(), ": left out: ", trouble));
    }
    if (runs.size() == before)
      base::fail(base::ExitCode::data, "'", argument,
                 "': no run in this folder can be compared; the warnings give the reasons");
  }
  require_different(runs);
  return runs;
}

telemetry::Sweep sweep_of(const std::vector<std::string>& run_dirs) {
  telemetry::Sweep sweep;
  const std::vector<std::string> names = short_names(run_dirs);
  std::optional<RecordedRecipe> first;
  for (size_t i = 0; i < run_dirs.size(); ++i) {
    const TrainedSteps trained = trained_steps(run_dirs[i]);
    telemetry::SweepRun run = sweep_run(names[i], run_dirs[i], trained);
    const RecordedRecipe recipe(trained.recipe);
    if (!first) first = recipe;
    run.settings = recipe.settings();
    run.differences = first->differences_to(recipe);
    sweep.runs.push_back(std::move(run));
  }
  sweep.keys = differing_keys(sweep.runs, first->recipe());
  for (telemetry::SweepRun& run : sweep.runs)
    std::erase_if(run.settings,
                  [&](const auto& s) { return std::ranges::find(sweep.keys, s.first) == sweep.keys.end(); });
  return sweep;
}

}  // namespace hexad::train
