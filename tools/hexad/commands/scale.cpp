#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/path_problem.h"
#include "framework/base/units.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"
#include "tools/scale/csv_comparison.h"
#include "tools/scale/experiment_run.h"
#include "tools/scale/order.h"
#include "tools/scale/slurm_array.h"
#include "tools/train/process/job_launcher.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/program_identity.h"

namespace hexad::app {

using namespace scale;
using base::ExitCode;
using base::fail;
namespace fs = std::filesystem;

namespace {

struct ScaleArguments {
  std::string experiment, compare;
  std::vector<std::string> overrides;
  int64_t run = -1;
  bool dry_run = false, submit = false, report = false;
};

// An experiment whose points are legal. Without --report, a requested point that exceeds the memory has been rejected.
// With --report, the memory is not checked.
struct Ready {
  Experiment experiment;
  std::vector<LoadedPoint> points;
  std::vector<PointForecast> forecasts;
};

// Limits the available ranks of the points that run here to the ranks of the Slurm allocation. Does nothing outside an
// allocation, if the experiment sets max_ranks, or with --dry-run, --submit or --report. Skips points with a launcher.
void limit_to_allocation(const ExperimentConfig& config, const ScaleArguments& options, int64_t only_point,
                         std::vector<Point>& points) {
  const int64_t ranks = train::allocated_ranks();
  if (ranks == 0 || config.max_ranks > 0 || options.dry_run || options.submit || options.report) return;
  for (int64_t i = 0; i < std::ssize(points); ++i) {
    Point& point = points[i];
    if ((only_point >= 0 && i != only_point) || !point.launcher.empty()) continue;
    point.max_ranks = point.max_ranks > 0 ? std::min(point.max_ranks, ranks) : ranks;
  }
}

// Returns the runs of the experiment in the order in which they are executed.
std::vector<Execution> order_of(const ExperimentConfig& config, int64_t points) {
  return shuffled_order(points, config.repeats, config.seed);
}

// Returns the index of the point of run number `run` (--run). Returns -1 (all points) if `run` is negative.
int64_t point_of_run(const ExperimentConfig& config, int64_t run, int64_t points) {
  if (run < 0) return -1;
  const std::vector<Execution> order = order_of(config, points);
  if (run >= std::ssize(order))
    fail(ExitCode::usage, "--run (", run, ") must be at most ", std::ssize(order) - 1, ", because the experiment has ",
         base::counted(std::ssize(order), "run"));
  return order[run].point;
}

Ready ready(const ScaleArguments& options, const train::Extensions& extensions) {
  Ready r{.experiment = load_experiment(options.experiment, options.overrides), .points = {}, .forecasts = {}};
  const ExperimentConfig& config = r.experiment.config;
  std::vector<Point> points = points_of(r.experiment);
  const Clusters clusters(r.experiment, points);
  clusters.set_ranks(config, points);
  const int64_t only_point = point_of_run(config, options.run, std::ssize(points));
  limit_to_allocation(config, options, only_point, points);
  // Checks the memory of this machine only if the runs execute on this machine: --dry-run and --submit may be given on
  // another machine, such as a cluster's login node.
  const bool runs_here =
      config.launcher.empty() && !train::in_slurm_allocation() && !options.submit && !options.dry_run;
  const auto forecast_all = [&](const std::vector<LoadedPoint>& legal) {
    for (int64_t i = 0; i < std::ssize(legal); ++i) {
      const bool wanted = only_point < 0 || i == only_point;
      r.forecasts.push_back(wanted ? forecast_point(legal[i], clusters.of(legal[i].point), extensions)
                                   : PointForecast{});
    }
    if (options.report) return;  // the runs may have been executed on other machines
    require_memory(r.experiment, legal, r.forecasts, extensions, runs_here);
  };
  r.points = load_points(r.experiment, std::move(points), extensions, forecast_all);
  return r;
}

// Returns the absolute path of this program, for child processes and scripts.
std::string own_path() { return fs::read_symlink("/proc/self/exe").string(); }

StepSecondsByPoint read_other(const std::string& path) {
  if (const std::string problem = base::file_problem(path); !problem.empty())
    fail(ExitCode::usage, "--compare (", path, "): ", problem, "; expected a scale.csv of another experiment");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return steps_in_csv(text.str(), path);
}

ExitCode submit(const Ready& r, const ScaleArguments& options) {
  const ExperimentConfig& config = r.experiment.config;
  double hours = 0;
  const std::vector<Execution> order = order_of(config, std::ssize(r.points));
  const std::vector<int64_t> indices = unfinished_runs(r.experiment, r.points, order);
  if (indices.empty()) {
    fmt::print("nothing to submit: every run of the experiment is finished\n");
    return ExitCode::done;
  }
  for (const int64_t i : indices) hours += max_node_hours_of_run(config, r.points[order[i].point].point);
  if (config.max_node_hours > 0 && hours > config.max_node_hours)
    fail(ExitCode::usage, r.experiment.problems.known().at("max_node_hours").at.text(), ": max_node_hours (",
         config.max_node_hours, ") is less than the ", base::with_digits(hours, 3),
         " node-hours that the unfinished runs may take at most, by the key minutes (", config.minutes,
         "); expected a larger max_node_hours, or fewer points, repeats or minutes");
  const ExperimentFolder folder(r.experiment, r.points);
  for (const SlurmArray& array : arrays_of(r.points, order, indices)) {
    const std::string name = fmt::format("submit-repeat-{}-nodes-{}.sh", array.repeat, array.nodes);
    const std::string file = (folder.path() / name).string();
    base::write_file(file,
                     slurm_script(array, r.experiment, own_path(), options.overrides, fs::current_path().string()));
    fmt::print("sbatch {}   # {}\n", train::shell_word(file), base::counted(std::ssize(array.tasks), "run"));
  }
  std::string report = fmt::format("{} scale {}", train::program_name(), train::shell_word(r.experiment.path));
  for (const std::string& text : options.overrides) report += fmt::format(" {}", train::shell_word(text));
  fmt::print("the jobs take at most {} node-hours; afterwards, run: {} --report\n", base::with_digits(hours, 3),
             report);
  return ExitCode::done;
}

// Returns the cores or nodes for simultaneous runs; nullopt if the runs execute one after another. Throws
// config::RecipeError with the reason if runs cannot execute at the same time (problem_of_room()).
std::optional<Room> room_of(Ready& r) {
  if (r.experiment.config.at_once == 1) return std::nullopt;
  Room room = room_here();
  const std::string problem = problem_of_room(r.experiment.config, r.points, r.forecasts, room);
  if (!problem.empty()) r.experiment.problems.add("at_once", problem);
  r.experiment.problems.throw_if_any();
  return room;
}

// Returns the exit code of the command for the outcomes of its runs.
ExitCode code_of(const RunCounts& counts) {
  if (counts.preempted) return ExitCode::preempted;
  if (counts.failed == 0) return ExitCode::done;
  for (const ExitCode code : {ExitCode::usage, ExitCode::data, ExitCode::resource, ExitCode::numeric,
                              ExitCode::communication, ExitCode::peer_lost})
    if (counts.first_failure == static_cast<int>(code)) return code;
  // The first failed run ended by a signal, with an internal error (1), or with an exit code of the launcher. These
  // cases count as a lost rank.
  return ExitCode::peer_lost;
}

void say_line(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

ExitCode run(const ScaleArguments& options, const train::Extensions& extensions) {
  using Action = std::pair<std::string_view, bool>;
  std::string given;
  int actions = 0;
  for (const auto& [name, is_given] : {Action{"--dry-run", options.dry_run}, Action{"--submit", options.submit},
                                       Action{"--report", options.report}, Action{"--run", options.run >= 0}})
    if (is_given) given += base::cat(actions++ == 0 ? "" : " and ", name);
  if (actions > 1) fail(ExitCode::usage, given, " are given; expected at most one of them");
  if (!options.compare.empty() && (options.dry_run || options.submit || options.run >= 0))
    fail(ExitCode::usage, "--compare is given with ", given,
         ", which has no results to compare; expected --compare alone, or with --report");
  StepSecondsByPoint other;
  if (!options.compare.empty()) other = read_other(options.compare);
  Ready r = ready(options, extensions);
  if (r.experiment.config.at_once > 1 && (options.submit || options.run >= 0))
    fail(ExitCode::usage, options.submit ? "--submit" : "--run", " is given, but at_once (",
         r.experiment.config.at_once,
         ") is more than 1; expected at_once=1, because each task of a Slurm job "
         "array executes one run");
  if (options.dry_run) {
    fmt::print("{}", dry_run_table(r.experiment, r.points, r.forecasts));
    return ExitCode::done;
  }
  if (options.submit) return submit(r, options);
  const std::optional<Room> room = options.report ? std::nullopt : room_of(r);
  const bool runs_all = !options.report && options.run < 0;
  const ExperimentFolder folder(r.experiment, r.points, runs_all);
  RunCounts counts;
  if (!options.report) {
    ExperimentRequest request{
        .program = own_path(), .identity = train::program_identity(), .only_run = {}, .room = room, .info = say_line};
    if (options.run >= 0) request.only_run = options.run;
    counts = run_points(r.experiment, r.points, folder, request);
    fmt::print("{} executed, {} finished before, {} failed, {} run by other processes\n",
               base::counted(counts.executed, "run"), counts.finished_before, counts.failed, counts.busy);
  }
  if (options.run >= 0) return code_of(counts);
  const Results results = results_of(r.experiment, r.points, r.forecasts, folder);
  write_results(results, folder);
  fmt::print("\n{}\n", markdown_of(results));
  if (!options.compare.empty()) fmt::print("{}\n", comparison_text(results, other, options.compare));
  fmt::print("{}\n", (folder.path() / "report.html").string());
  const ExitCode code = code_of(counts);
  return code == ExitCode::done && !results.damaged.empty() ? ExitCode::data : code;
}

}  // namespace

void add_scale(const Program& program) {
  const Command command = program.root.add_command(
      "scale", "Measure a recipe at many points (ranks, layouts, schedules, any key) and compare with predictions");
  auto options = std::make_shared<ScaleArguments>();
  command.add_option("experiment", &options->experiment, "YAML experiment (docs/scaling-experiments.md)")
      .required()
      .path();
  command.add_option("overrides", &options->overrides, "key=value, applied to the experiment");
  command.add_flag("--dry-run", options->dry_run, "list the points with predicted time, memory and cost; run nothing");
  command.add_flag("--submit", options->submit, "write sbatch scripts of array jobs instead of running the points");
  command.add_flag("--report", options->report, "write the results of the finished runs; run nothing");
  command
      .add_option("--run", &options->run,
                  "execute only this run, counted from 0 in the order of all runs; -1: all runs. Array jobs use this "
                  "option")
      .legal(whole_number(-1));
  command.add_option("--compare", &options->compare, "scale.csv of another experiment, to compare with this one")
      .path();
  command.run(on_one_rank(command, [options, extensions = program.extensions] { return run(*options, extensions); }));
}

}  // namespace hexad::app
