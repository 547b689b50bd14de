#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/path_problem.h"
#include "framework/config/nearest_path.h"
#include "framework/data/inspect_dataset.h"
#include "framework/io/inspect_checkpoint.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/process/say.h"
#include "tools/train/report/run_facts.h"

namespace hexad::app {

using namespace train;

namespace {

namespace fs = std::filesystem;

struct InspectArguments {
  std::string path;
  bool json = false, verify = false;
};

void show(const io::Checkpoint& checkpoint, const InspectArguments& options) {
  fmt::print("{}\n", options.json ? io::describe_json(checkpoint) : io::describe(checkpoint));
}

/// Prints the facts of a run, followed by `text`. With --json, `text` is a JSON object or empty, and the function
/// prints this object with the facts as the member "run".
void show_run(const RunFacts& facts, const std::string& text, const InspectArguments& options) {
  using Json = nlohmann::ordered_json;
  for (const std::string& problem : facts.problems) say("warning: " + problem);
  if (!options.json) {
    fmt::print("{}{}{}", describe(facts), text.empty() ? "" : "\n", text);
    return;
  }
  Json json = text.empty() ? Json::object() : Json::parse(text);
  json["run"] = Json::parse(describe_json(facts));
  fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
}

/// Shows a run directory and its newest checkpoint, from which training would continue.
base::ExitCode show_newest(const io::CheckpointStore& store, const InspectArguments& options) {
  const RunFacts facts = facts_of_run(options.path);
  const auto checkpoint = store.find({}, io::Check::quick);
  if (!checkpoint && facts.recipe.empty())
    fail(base::ExitCode::data, "'", options.path,
         "' has no checkpoint yet; train until the first save (checkpoint.every, checkpoint.at_end)");
  const auto text = [&] { return options.json ? io::describe_json(*checkpoint) : io::describe(*checkpoint) + "\n"; };
  show_run(facts, checkpoint ? text() : "", options);
  return base::ExitCode::done;
}

/// Checks all checkpoints of a run byte by byte. Then shows the run, the results of the checks and, without --json, the
/// newest good checkpoint, from which training would continue.
base::ExitCode verify_all(const io::CheckpointStore& store, const InspectArguments& options) {
  const auto scan = store.scan(io::Check::full);
  if (scan.good.empty() && scan.problems.empty())
    fail(base::ExitCode::data, "'", options.path,
         "' has no checkpoint yet; train until the first save (checkpoint.every, checkpoint.at_end)");
  for (const std::string& problem : scan.problems) train::say("bad checkpoint: " + problem);
  const std::string newest = scan.good.empty() ? "" : base::cat("\n", io::describe(scan.good.front()), "\n");
  show_run(facts_of_run(options.path), options.json ? io::describe_json(scan) : io::describe(scan) + newest, options);
  return scan.problems.empty() ? base::ExitCode::done : base::ExitCode::data;
}

base::ExitCode show_dataset(const InspectArguments& options) {
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
  return has(path, "manifest.json") || has(path, "checkpoints") || has(path, "recipe.yaml") ||
         data::is_dataset(path.string());
}

/// Throws Error(usage) if the path cannot be inspected. The message names folders and files directly below the path
/// that can be inspected.
void require_checkpoint(const std::string& path) {
  if (has(path, "manifest.json")) return;
  const bool is_file = base::file_problem(path).empty();
  if (const std::string problem = base::folder_problem(path); !is_file && !problem.empty())
    base::fail(base::ExitCode::usage, path, ": ", problem, config::nearest_folders(path));
  if (!is_file)
    for (const fs::directory_entry& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".safetensors")
        return;  // the path may be a checkpoint that has lost its manifest
  base::fail(base::ExitCode::usage, "'", path,
             "' is not a checkpoint folder, run directory, prepared folder, .hxd or .idx file",
             is_file ? "" : config::accepted_below(path, can_be_inspected));
}

base::ExitCode inspect(const InspectArguments& options) {
  const fs::path path = options.path, folder = path / "checkpoints";
  std::error_code error;
  const bool is_run = fs::is_directory(folder, error) || (has(path, "recipe.yaml") && !has(path, "manifest.json"));
  if (!is_run) {
    if (!has(path, "manifest.json") && data::is_dataset(options.path)) return show_dataset(options);
    require_checkpoint(options.path);
    show(io::Checkpoint::open(options.path, options.verify ? io::Check::full : io::Check::quick), options);
    return base::ExitCode::done;
  }
  io::StoreOptions warning;
  warning.warn = say;
  const io::CheckpointStore store(folder.string(), warning);
  if (options.verify) return verify_all(store, options);
  return show_newest(store, options);
}

}  // namespace

void add_inspect(const Program& program) {
  const Command command =
      program.root.add_command("inspect", "Show the state of a run, and the contents of a checkpoint or a dataset");
  auto options = std::make_shared<InspectArguments>();
  command.add_option("path", &options->path, "checkpoint folder, run directory, prepared folder, .hxd or .idx file")
      .required()
      .path();
  command.add_flag("--json", options->json, "print one JSON object");
  command.add_flag("--verify", options->verify,
                   "first check every byte (in a run directory: of all checkpoints); exit code 3 if a file is damaged");
  command.run(on_one_rank(command, [options] { return inspect(*options); }));
}

}  // namespace hexad::app
