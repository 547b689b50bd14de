#include <filesystem>

#include <fmt/core.h>

#include "framework/data/inspect.h"
#include "framework/io/inspect.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/train/run_directory.h"
#include "tools/train/say.h"

namespace hexad::app {

using namespace train;

namespace {

struct Options {
  std::string path;
  bool json = false, verify = false;
};

void show(const io::Checkpoint& checkpoint, const Options& options) {
  fmt::print("{}\n", options.json ? io::describe_json(checkpoint) : io::describe(checkpoint));
}

/// A run directory stands for the checkpoint that the run would continue from.
void show_newest(const io::CheckpointStore& store, const Options& options) {
  const auto checkpoint = store.find({}, io::Check::quick);
  if (!checkpoint) fail(base::ExitCode::data, "'", options.path, "' has no checkpoint yet");
  show(*checkpoint, options);
}

/// All checkpoints of a run, byte by byte, then the one that the run would continue from.
base::ExitCode verify_all(const io::CheckpointStore& store, const Options& options) {
  const auto scan = store.scan(io::Check::full);
  if (scan.good.empty() && scan.problems.empty())
    fail(base::ExitCode::data, "'", options.path, "' has no checkpoint yet");
  for (const std::string& problem : scan.problems) fmt::print(stderr, "hexad: bad checkpoint: {}\n", problem);
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

base::ExitCode inspect(const Options& options) {
  const std::filesystem::path path = options.path, folder = path / "checkpoints";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    if (!std::filesystem::exists(path / "manifest.json", error) && data::is_dataset(options.path))
      return show_dataset(options);
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
  const Command command = program.root.add_command("inspect", "Show what a checkpoint or a dataset holds");
  auto options = std::make_shared<Options>();
  command.add_option("path", &options->path, "checkpoint folder, run directory, prepared folder or .hxd file")
      .required();
  command.add_flag("--json", options->json, "as one JSON object");
  command.add_flag("--verify", options->verify,
                   "check every byte first, of a run directory those of all its checkpoints; damage exits with 3");
  command.run(on_one_rank(command, [options] { return inspect(*options); }));
}

}  // namespace hexad::app
