#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/escaped.h"
#include "framework/base/units.h"
#include "framework/config/words.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/interruptible.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"
#include "tools/interop/export_model.h"
#include "tools/interop/family.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/process/say.h"

namespace hexad::app {
namespace {

struct ExportArguments {
  std::string run, target, step = "auto";
  interop::ExportOptions model;
  bool json = false;
};

base::ExitCode run_export(const ExportArguments& options) {
  const auto begin = std::chrono::steady_clock::now();
  io::Checkpoint checkpoint = train::open_saved_checkpoint(options.run, options.step);
  const interop::ExportReport report = interruptible([&](const base::FileWork& work) {
    return interop::export_model(checkpoint, options.target, options.model, work);
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (options.json) {
    const nlohmann::ordered_json facts{{"model_type", report.model_type}, {"checkpoint", checkpoint.folder()},
                                       {"step", checkpoint.step()},       {"origin", report.origin},
                                       {"tensors", report.tensors},       {"parameters", report.parameters},
                                       {"bytes", report.bytes},           {"shards", report.shards},
                                       {"seconds", seconds.count()},      {"files", report.files},
                                       {"notes", report.notes},           {"folder", options.target}};
    fmt::print("{}\n", facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return base::ExitCode::done;
  }
  fmt::print("{}: step {}, {}, {} parameters, {} in {} written in {:.1f} s\n", report.model_type, checkpoint.step(),
             base::counted(report.tensors, "tensor"), base::grouped(report.parameters),
             base::human_bytes(static_cast<double>(report.bytes)), base::counted(report.shards, "file"),
             seconds.count());
  if (!report.origin.empty())
    fmt::print("config.json{}{} from {}\n", report.files.empty() ? "" : ", ",
               base::escaped(fmt::format("{}", fmt::join(report.files, ", "))), report.origin);
  else if (!report.files.empty())
    fmt::print("copied: {}\n", base::escaped(fmt::format("{}", fmt::join(report.files, ", "))));
  for (const std::string& note : report.notes) train::say(note.starts_with("warning: ") ? note : "note: " + note);
  return base::ExitCode::done;
}

}  // namespace

void add_export(const Program& program) {
  const Command command = program.root.add_command("export", "Write a checkpoint as a Hugging Face model");
  auto options = std::make_shared<ExportArguments>();
  command.add_option("run", &options->run, "run directory, or the folder of a checkpoint").required().path();
  command.add_option("output", &options->target, "new folder for config.json, safetensors and tokenizer files")
      .required()
      .path();
  command.add_option("--step", &options->step, "checkpoint: auto (the newest good one) or a step")
      .legal(auto_or_step());
  command
      .add_option(
          "--like", &options->model.like,
          "folder whose config.json and tokenizer files are used; default: the folder of the model from which the run "
          "started")
      .path();
  std::vector<std::string_view> families;
  for (const interop::Family& family : interop::families()) families.push_back(family.model_type);
  command
      .add_option("--family", &options->model.family,
                  base::cat("model_type: ", config::join(families),
                            "; needed if the model was trained from scratch or has another family than the imported "
                            "model"))
      .legal(one_of(std::move(families)));
  command
      .add_option("--dtype", &options->model.dtype,
                  "dtype of the weights: f32, bf16, f16, or source (the dtype of the imported model)")
      .legal(one_of({"source", "f32", "bf16", "f16"}));
  command
      .add_option("--shard-bytes", &options->model.shard_bytes,
                  "largest size of the tensors in a safetensors file, in bytes")
      .legal(whole_number(1));
  command.add_flag("--json", options->json, "print one JSON object");
  command.run(on_one_rank(command, [options] { return run_export(*options); }));
}

}  // namespace hexad::app
