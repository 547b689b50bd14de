#include <filesystem>
#include <memory>

#include <fmt/core.h>

#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/output_file.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/train/run_report.h"

namespace hexad::app {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string out;
};

base::ExitCode report(const Options& o) {
  const bool one = o.runs.size() == 1;
  std::string out = o.out;
  if (out.empty()) out = one ? (std::filesystem::path(o.runs.front()) / "report.html").string() : "comparison.html";
  require_replaceable(out, "<!DOCTYPE html>", "report");
  if (one)
    train::write_run_report(o.runs.front(), out);
  else
    train::write_run_comparison(o.runs, out);
  fmt::print("{}\n", out);
  return base::ExitCode::done;
}

}  // namespace

void add_report(const Program& program) {
  const Command command =
      program.root.add_command("report", "Make a run's report.html again; of several runs, compare them");
  auto options = std::make_shared<Options>();
  command.add_option("run", &options->runs, "run directories").required();
  command
      .add_option("--out", &options->out,
                  "HTML file to write; without it report.html in the run directory, of several runs comparison.html")
      .path();
  command.run(on_one_rank(command, [options] { return report(*options); }));
}

}  // namespace hexad::app
