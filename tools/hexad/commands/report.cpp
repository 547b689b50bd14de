#include <filesystem>
#include <memory>

#include <fmt/core.h>

#include "framework/base/atomic_file.h"
#include "framework/telemetry/comparison.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/user_file.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/process/say.h"
#include "tools/train/report/run_comparison.h"
#include "tools/train/report/run_report.h"

namespace hexad::app {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out, csv;
  bool json = false;
};

base::ExitCode report(const ReportArguments& o) {
  const bool one = o.runs.size() == 1 && !train::is_folder_of_runs(o.runs.front());
  if (one) train::require_run_directory(o.runs.front());
  std::string out = o.out;
  if (out.empty()) out = one ? (std::filesystem::path(o.runs.front()) / "report.html").string() : "comparison.html";
  require_two_files("--out", out, "--csv", o.csv);
  require_replaceable(out, "<!DOCTYPE html>", "report");
  if (!o.csv.empty()) require_replaceable(o.csv, "run,folder,", "table of runs");
  const std::vector<std::string> runs = train::find_runs(o.runs, train::say);
  if (one) train::write_run_report(runs.front(), out);
  if (!one || o.json || !o.csv.empty()) {
    const telemetry::Sweep sweep = train::sweep_of(runs);
    if (!one) telemetry::write_comparison(sweep, out);
    if (!o.csv.empty()) base::write_file(o.csv, telemetry::csv_of(sweep));
    if (o.json) fmt::print("{}\n", telemetry::json_of(sweep, out));
  }
  if (!o.json) fmt::print("{}\n", out);
  return base::ExitCode::done;
}

}  // namespace

void add_report(const Program& program) {
  const Command command =
      program.root.add_command("report", "Write a run's report.html again, or compare several runs");
  auto options = std::make_shared<ReportArguments>();
  command.add_option("run", &options->runs, "run directories, or folders that contain run directories")
      .required()
      .path();
  command
      .add_option("--out", &options->out,
                  "HTML file to write; default: report.html in the run directory, or comparison.html for several runs")
      .path();
  command.add_option("--csv", &options->csv, "CSV file to which the table of the runs is also written").path();
  command.add_flag("--json", options->json, "print the table and the page's path as one JSON object");
  command.run(on_one_rank(command, [options] { return report(*options); }));
}

}  // namespace hexad::app
