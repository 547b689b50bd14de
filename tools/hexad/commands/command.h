// The subcommands of `hexad`. Each function adds a command to the command line. The command's body runs if the user
// chooses the command.
#pragma once

#include "tools/hexad/command_line.h"
#include "tools/train/recipe/extensions.h"

namespace hexad::app {

/// Arguments of the functions below: the root command, and the parts that a user's program adds.
struct Program {
  Command root;
  const train::Extensions& extensions;
};

void add_train(const Program& program);
void add_generate(const Program& program);
void add_eval(const Program& program);
void add_validate(const Program& program);
void add_plan(const Program& program);
void add_prepare(const Program& program);
void add_tokenize(const Program& program);
void add_import(const Program& program);
void add_export(const Program& program);
void add_inspect(const Program& program);
void add_env(const Program& program);
void add_bench(const Program& program);
void add_profile(const Program& program);
void add_check_cluster(const Program& program);
void add_reference(const Program& program);
void add_report(const Program& program);
void add_scale(const Program& program);
void add_simulate(const Program& program);
void add_verify(const Program& program);
void add_completion(const Program& program);
void add_help(const Program& program);

/// Adds the command `prefill` to `bench`.
void add_bench_prefill(const Command& bench, const Program& program);

}  // namespace hexad::app
