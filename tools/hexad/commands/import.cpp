#include <chrono>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/escaped.h"
#include "framework/base/units.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/interruptible.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/interop/import_model.h"
#include "tools/train/process/say.h"

namespace hexad::app {
namespace {

struct ImportArguments {
  std::string source, target;
  bool text_only = false, json = false;
};

base::ExitCode run_import(const ImportArguments& options) {
  const auto begin = std::chrono::steady_clock::now();
  const interop::ImportReport report = interruptible([&](const base::FileWork& work) {
    return interop::import_model(options.source, options.target, {.text_only = options.text_only}, work);
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (options.json) {
    const nlohmann::ordered_json facts{{"model_type", report.model_type}, {"tensors", report.tensors},
                                       {"parameters", report.parameters}, {"bytes", report.bytes},
                                       {"seconds", seconds.count()},      {"files", report.files},
                                       {"notes", report.notes},           {"folder", options.target}};
    fmt::print("{}\n", facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return base::ExitCode::done;
  }
  fmt::print("{}: {}, {} parameters, {} read in {:.1f} s\n", report.model_type, base::counted(report.tensors, "tensor"),
             base::grouped(report.parameters), base::human_bytes(static_cast<double>(report.bytes)), seconds.count());
  if (!report.files.empty())
    fmt::print("copied: {}\n", base::escaped(fmt::format("{}", fmt::join(report.files, ", "))));
  for (const std::string& note : report.notes) train::say(base::cat("note: ", note));
  fmt::print("{0}: train with `hexad train {0}/recipe.yaml data.dataset=FOLDER`\n", options.target);
  return base::ExitCode::done;
}

}  // namespace

void add_import(const Program& program) {
  const Command command = program.root.add_command("import", "Convert a Hugging Face model to a checkpoint");
  auto options = std::make_shared<ImportArguments>();
  command.add_option("model", &options->source, "folder with config.json and safetensors files").required().path();
  command.add_option("output", &options->target, "new folder: a checkpoint for train.init_from, with a recipe")
      .required()
      .path();
  command.add_flag("--text-only", options->text_only,
                   "import only the text model, without a vision encoder or other parts");
  command.add_flag("--json", options->json, "print one JSON object");
  command.run(on_one_rank(command, [options] { return run_import(*options); }));
}

}  // namespace hexad::app
