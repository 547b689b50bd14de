#include <fmt/core.h>

#include "tools/hexad/commands/command.h"
#include "tools/train/recipe.h"

namespace hexad::app {

using namespace train;

void add_reference(CommandLine& line) {
  auto* command = line.app.add_subcommand("reference", "Print the recipe reference (docs/recipe-reference.md)");
  command->callback([] {
    fmt::print(
        "# Recipe reference\n\nPrinted by `hexad reference` from the program's own schema; a test compares.\n\n{}",
        config::reference<Recipe>());
  });
}

}  // namespace hexad::app
