// The subcommands of `hexad`. Each adds itself to the command line; its callback runs when it was chosen.
#pragma once

#include <CLI/CLI.hpp>

#include "framework/base/error.h"
#include "layers/feed_forward.h"

namespace hexad::app {

/// What the commands share. `exit_code` is what the chosen command returns.
struct CommandLine {
  CLI::App& app;
  const layers::Registry& registry;
  base::ExitCode exit_code = base::ExitCode::done;
};

void add_train(CommandLine& line);
void add_generate(CommandLine& line);
void add_eval(CommandLine& line);
void add_validate(CommandLine& line);
void add_prepare(CommandLine& line);
void add_inspect(CommandLine& line);
void add_env(CommandLine& line);
void add_bench(CommandLine& line);
void add_profile(CommandLine& line);
void add_reference(CommandLine& line);
void add_simulate(CommandLine& line);
void add_verify(CommandLine& line);
void add_completion(CommandLine& line);

}  // namespace hexad::app
