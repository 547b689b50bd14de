#include "tools/scale/state.h"

#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "framework/base/json_kind.h"
#include "framework/base/path_problem.h"
#include "framework/config/typed_recipe.h"

namespace hexad::scale {

using base::ExitCode;
using base::fail;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr int format = 1;
constexpr std::string_view identity_file = "experiment.json", lock_file = "scale.lock";

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Returns the JSON object in the file. Throws Error(usage) if the file does not contain a JSON object.
Json object_in(const std::string& path, const std::string& remedy) {
  Json json = Json::parse(read_text(path), nullptr, false);
  if (!json.is_object())
    fail(ExitCode::usage, path,
         json.is_discarded() ? ": cannot be read as JSON" : base::cat(": is ", base::json_kind(json)),
         ", expected a JSON object; ", remedy);
  return json;
}

// Returns the experiment with defaults for the keys that do not affect any run: predictions and limits.
ExperimentConfig settings_of_runs(ExperimentConfig config) {
  const ExperimentConfig defaults;
  config.cluster = defaults.cluster;
  config.cluster_set = defaults.cluster_set;
  config.max_ranks = defaults.max_ranks;
  config.minutes = defaults.minutes;
  config.max_node_hours = defaults.max_node_hours;
  return config;
}

constexpr std::string_view new_folder = "set the key dir to a new folder, or move this folder away";

// Returns the first difference between the stored experiment and `config`: the format of the file, a setting, or the
// recipe of a point. Returns a text about the file if `stored` is malformed.
std::string difference(const Json& stored, const Json& wanted, const ExperimentConfig& config) try {
  if (stored.value("format", 0) != format)
    return base::cat("the format of the file is ", stored.value("format", 0), ", expected ", format);
  if (const std::string text = stored.value("experiment", ""); text != wanted["experiment"].get<std::string>()) {
    config::Problems problems;
    const auto before = config::read<ExperimentConfig>(config::parse(text, "experiment.json"), problems);
    const std::vector<std::string> lines = config::differences(before, settings_of_runs(config));
    return lines.empty() ? std::string("the settings in the file were written by another version") : lines.front();
  }
  return "the recipe of a point has changed";
} catch (const Json::exception&) {
  return "the keys of the file have wrong types";
}

}  // namespace

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(base::creation_exit_code(error), folder.string(), ": cannot be created: ", error.message());
}

std::string identity_of(const ExperimentConfig& config, const std::vector<LoadedPoint>& points) {
  Json of_points = Json::object();
  for (const LoadedPoint& p : points) of_points[p.point.name] = fmt::format("{:016x}", config::fingerprint(p.recipe));
  const std::string settings = config::write(settings_of_runs(config));
  return Json{{"format", format}, {"experiment", settings}, {"points", of_points}}.dump(2) + "\n";
}

ExperimentFolder::ExperimentFolder(const Experiment& experiment, const std::vector<LoadedPoint>& points, bool exclusive)
    : experiment_(experiment), points_(points), dir_(experiment.config.dir) {
  const std::string file = (dir_ / identity_file).string(), contents = identity_of(experiment.config, points);
  std::error_code error;
  if (fs::exists(file, error)) {
    require_same(file, contents);
  } else {
    require_new_folder();
    make_folder(dir_);
  }
  if (exclusive) take_lock();
  if (!fs::exists(file, error)) base::write_file(file, contents);
  require_same(file, contents);  // another process may have written the file
  require_own_runs();
}

void ExperimentFolder::require_new_folder() const {
  std::error_code error;
  if (!fs::exists(dir_, error)) return;
  if (!fs::is_directory(dir_, error)) fail(ExitCode::usage, dir_.string(), " is not a folder; ", new_folder);
  // Files of another process that is creating the same folder are accepted.
  const std::string temporary = std::string(identity_file) + ".";
  for (const fs::directory_entry& entry : fs::directory_iterator(dir_, error)) {
    const std::string name = entry.path().filename().string();
    if (name == lock_file || name == identity_file || (name.starts_with(temporary) && name.ends_with(".tmp"))) continue;
    if (fs::exists(dir_ / identity_file, error)) return;
    fail(ExitCode::usage, dir_.string(), " has files, but no experiment.json, so it is not an experiment's folder; ",
         new_folder);
  }
}

void ExperimentFolder::take_lock() {
  const std::string path = (dir_ / lock_file).string();
  lock_ = io::FileLock::take(path, io::FileLock::Mode::exclusive, true);
  if (!lock_)
    fail(ExitCode::usage, path,
         " is locked: another hexad scale runs this experiment, or runs of an earlier hexad scale have not "
         "ended; wait until they end");
}

void ExperimentFolder::require_same(const std::string& file, const std::string& contents) const {
  const Json stored = object_in(file, std::string(new_folder)), wanted = Json::parse(contents);
  if (stored == wanted) return;
  fail(ExitCode::usage, file, " belongs to another experiment: ", difference(stored, wanted, experiment_.config), "; ",
       new_folder);
}

void ExperimentFolder::require_own_runs() const {
  std::error_code error;
  for (size_t p = 0; p < points_.size(); ++p)
    for (int64_t repeat = 1; repeat <= experiment_.config.repeats; ++repeat) {
      const Execution run{.point = static_cast<int64_t>(p), .repeat = repeat};
      // Another process may start this run during the check. That process writes the record before it creates the run
      // directory, so the record is read last.
      const bool exists = fs::exists(run_dir(run), error);
      if (record(run).state == RunState::waiting && exists)
        fail(ExitCode::usage, run_dir(run), " was not created by this experiment: ", base_of(run),
             ".json is missing; move the folder away");
    }
}

std::string ExperimentFolder::base_of(const Execution& run) const {
  return (dir_ / points_.at(run.point).point.name / base::cat("repeat-", run.repeat)).string();
}

RunRecord ExperimentFolder::record(const Execution& run) const {
  const std::string file = base_of(run) + ".json";
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  const Json json = object_in(file, "remove the file and the folder " + run_dir(run) + " to run this point again");
  try {
    if (const auto state = base::enum_named<RunState>(json.at("state").get<std::string>()))
      return {.state = *state,
              .exit_code = json.at("exit_code").get<int>(),
              .seconds = json.at("seconds").get<double>(),
              .reason = json.at("reason").get<std::string>(),
              .beside = json.at("beside").get<int64_t>(),
              // Earlier versions do not write the following keys.
              .shared_cores = json.value("shared_cores", int64_t{0}),
              .program = json.value("program", std::string()),
              .warnings = json.value("warnings", std::vector<std::string>())};
  } catch (const Json::exception&) {  // a key is missing or has another type: this program did not write the file
  }
  fail(ExitCode::usage, file, " is not the record of a run; remove the file and the folder ", run_dir(run),
       " to run this point again");
}

std::vector<int64_t> unfinished_runs(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                                     const std::vector<Execution>& order) {
  std::error_code error;
  std::optional<ExperimentFolder> folder;
  if (fs::exists(fs::path(experiment.config.dir) / identity_file, error)) folder.emplace(experiment, points);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < std::ssize(order); ++i)
    if (!folder || folder->record(order[i]).state != RunState::finished) indices.push_back(i);
  return indices;
}

void ExperimentFolder::start(const Execution& run) const {
  end(run, {.state = RunState::started});
  fs::remove_all(run_dir(run));
}

void ExperimentFolder::end(const Execution& run, const RunRecord& r) const {
  const Json json{{"state", std::string(base::enum_name(r.state))},
                  {"exit_code", r.exit_code},
                  {"seconds", r.seconds},
                  {"reason", r.reason},
                  {"beside", r.beside},
                  {"shared_cores", r.shared_cores},
                  {"program", r.program},
                  {"warnings", r.warnings}};
  make_folder(fs::path(base_of(run)).parent_path());
  base::write_file(base_of(run) + ".json", json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace hexad::scale
