#include <filesystem>

#include <fmt/core.h>

#include "framework/io/inspect.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/run_directory.h"

namespace hexad::app {
namespace {

struct Options {
  std::string path;
  bool json = false, verify = false;
};

io::Checkpoint open(const Options& options) {
  const auto check = options.verify ? io::Check::full : io::Check::quick;
  // A run directory stands for its newest good checkpoint.
  if (const auto folder = std::filesystem::path(options.path) / "checkpoints"; std::filesystem::is_directory(folder)) {
    const io::CheckpointStore store(folder.string());
    if (auto checkpoint = store.find({}, check)) return std::move(*checkpoint);
    base::fail(base::ExitCode::data, "'", options.path, "' has no checkpoint yet");
  }
  return io::Checkpoint::open(options.path, check);
}

}  // namespace

void add_inspect(CommandLine& line) {
  auto* command = line.app.add_subcommand("inspect", "Show what a checkpoint holds");
  auto options = std::make_shared<Options>();
  command->add_option("checkpoint", options->path, "checkpoint folder, or a run directory")->required();
  command->add_flag("--json", options->json, "as one JSON object");
  command->add_flag("--verify", options->verify, "check every byte first");
  command->callback([options] {
    const io::Checkpoint checkpoint = open(*options);
    fmt::print("{}\n", options->json ? io::describe_json(checkpoint) : io::describe(checkpoint));
  });
}

}  // namespace hexad::app
