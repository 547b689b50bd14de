#include <algorithm>

#include <fmt/format.h>

#include "framework/config/document.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"
#include "tools/plan/papers/paper.h"

namespace hexad::app {
namespace {

struct Options {
  std::string paper, input;
  std::vector<std::string> overrides;
};

base::ExitCode simulate(const Options& options) {
  const auto all = plan::papers();
  const auto paper = std::ranges::find(all, options.paper, &plan::Paper::name);
  fmt::print("{}\n", paper->evaluate(config::load(options.input, options.overrides)));
  return base::ExitCode::done;
}

std::string keys_of_all_papers() {
  std::string text = "Keys of INPUT.yaml, in the papers' symbols: default, [unit] and meaning (docs/simulate.md).\n";
  for (const plan::Paper& paper : plan::papers())
    text += fmt::format("\n--paper {}: {}\n{}", paper.name, paper.title, paper.keys());
  return text;
}

}  // namespace

// Evaluates only the papers' closed forms. `bench predict` simulates the schedules of a recipe.
void add_simulate(const Program& program) {
  const Command command = program.root.add_command("simulate", "Evaluate a paper's closed forms; print JSON");
  auto options = std::make_shared<Options>();
  std::vector<std::string_view> names;
  for (const plan::Paper& paper : plan::papers()) names.push_back(paper.name);
  command.add_option("--paper", &options->paper, fmt::format("{}", fmt::join(names, ", ")))
      .required()
      .legal(one_of(names));
  command.add_option("input", &options->input, "YAML with the paper's symbols as keys").required();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the input");
  command.footer(keys_of_all_papers);
  command.run(on_one_rank(command, [options] { return simulate(*options); }));
}

}  // namespace hexad::app
