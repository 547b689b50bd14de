#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/path_problem.h"
#include "framework/data/inspect_dataset.h"
#include "framework/io/inspect_checkpoint.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/process/say.h"

namespace hexad::app {

using namespace train;

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string path;
  bool json = false, verify = false;
};

void show(const io::Checkpoint& checkpoint, const Options& options) {
  fmt::print("{}\n", options.json ? io::describe_json(checkpoint) : io::describe(checkpoint));
}

/// Shows the newest checkpoint of a run directory, from which the run would continue.
void show_newest(const io::CheckpointStore& store, const Options& options) {
  const auto checkpoint = store.find({}, io::Check::quick);
  if (!checkpoint) fail(base::ExitCode::data, "'", options.path, "' has no checkpoint yet");
  show(*checkpoint, options);
}

/// Checks all checkpoints of a run byte by byte, then shows the one from which the run would continue.
base::ExitCode verify_all(const io::CheckpointStore& store, const Options& options) {
  const auto scan = store.scan(io::Check::full);
  if (scan.good.empty() && scan.problems.empty())
    fail(base::ExitCode::data, "'", options.path, "' has no checkpoint yet");
  for (const std::string& problem : scan.problems) train::say("bad checkpoint: " + problem);
  if (options.json) {
    fmt::print("{}\n", io::describe_json(scan));
  } else {
    fmt::print("{}", io::describe(scan));
    if (!scan.good.empty()) fmt::print("\n{}\n", io::describe(scan.good.front()));
  }
  return scan.problems.empty() ? base::ExitCode::done : base::ExitCode::data;
}

base::ExitCode show_dataset(const Options& options) {
  const auto check = options.verify ? data::DatasetCheck::everything : data::DatasetCheck::structure;
  const data::InspectedDataset dataset = data::open_dataset(options.path, check, say);
  fmt::print("{}\n", options.json ? data::describe_json(dataset) : data::describe(dataset));
  return base::ExitCode::done;
}

bool has(const fs::path& folder, const char* name) {
  std::error_code error;
  return fs::exists(folder / name, error);
}

bool can_be_inspected(const fs::path& path) {
  return has(path, "manifest.json") || has(path, "checkpoints") || data::is_dataset(path.string());
}

/// Throws Error(usage) for a path that cannot be inspected, and names folders directly below it that can be. Throws
/// Error(data) for a run without a checkpoint.
void require_checkpoint(const std::string& path) {
  constexpr size_t most_named = 5;
  if (has(path, "manifest.json")) return;
  if (has(path, "recipe.yaml")) base::fail(base::ExitCode::data, "'", path, "' has no checkpoint yet");
  const bool is_file = base::file_problem(path).empty();
  if (const std::string problem = base::folder_problem(path); !is_file && !problem.empty())
    base::fail(base::ExitCode::usage, path, ": ", problem);
  std::vector<std::string> below;
  if (!is_file)
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".safetensors") return;  // a damaged checkpoint without its manifest
      if (can_be_inspected(entry.path())) below.push_back(base::cat("'", entry.path().string(), "'"));
    }
  std::ranges::sort(below);
  const size_t left = below.size() - std::min(below.size(), most_named);
  below.resize(below.size() - left);
  base::fail(
      base::ExitCode::usage, "'", path, "' is not a checkpoint folder, run directory, prepared folder or .hxd file",
      below.empty()
          ? ""
          : fmt::format("; below it: {}{}", fmt::join(below, ", "), left > 0 ? fmt::format(" and {} more", left) : ""));
}

base::ExitCode inspect(const Options& options) {
  const fs::path path = options.path, folder = path / "checkpoints";
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    if (!has(path, "manifest.json") && data::is_dataset(options.path)) return show_dataset(options);
    require_checkpoint(options.path);
    show(io::Checkpoint::open(options.path, options.verify ? io::Check::full : io::Check::quick), options);
    return base::ExitCode::done;
  }
  io::StoreOptions warning;
  warning.warn = say;
  const io::CheckpointStore store(folder.string(), warning);
  if (options.verify) return verify_all(store, options);
  show_newest(store, options);
  return base::ExitCode::done;
}

}  // namespace

void add_inspect(const Program& program) {
  const Command command = program.root.add_command("inspect", "Show the contents of a checkpoint or a dataset");
  auto options = std::make_shared<Options>();
  command.add_option("path", &options->path, "checkpoint folder, run directory, prepared folder or .hxd file")
      .required();
  command.add_flag("--json", options->json, "print one JSON object");
  command.add_flag(
      "--verify", options->verify,
      "first check every byte (in a run directory: of all its checkpoints); exit code 3 if any is damaged");
  command.run(on_one_rank(command, [options] { return inspect(*options); }));
}

}  // namespace hexad::app
