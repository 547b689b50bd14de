#include <iterator>
#include <set>
#include <string>

#include <fmt/core.h>

#include "tools/hexad/commands/command.h"
#include "tools/train/recipe.h"

namespace hexad::app {

using namespace train;

namespace {

// "a.b" of "a.b.0.c".
std::string without_index(const std::string& path) {
  size_t dot = path.find('.');
  while (dot != path.npos && (path[dot + 1] < '0' || path[dot + 1] > '9')) dot = path.find('.', dot + 1);
  return path.substr(0, dot);
}

// All that a recipe without any key has read. Elements of lists are written as a whole; a section is no key.
void print_keys() {
  config::Problems problems;
  config::read<Recipe>(config::parse("{}", "no keys"), problems);
  std::set<std::string> paths;
  for (const auto& [path, key] : problems.known()) paths.insert(without_index(path));
  for (auto path = paths.begin(); path != paths.end(); ++path)
    if (const auto next = std::next(path); next == paths.end() || !next->starts_with(*path + "."))
      fmt::print("{}\n", *path);
}

}  // namespace

void add_reference(const Program& program) {
  const Command command =
      program.root.add_command("reference", "Print the recipe reference (docs/recipe-reference.md)");
  auto keys = std::make_shared<bool>(false);
  command.add_flag("--keys", *keys, "the recipe's keys alone, one a line");
  command.run([keys] {
    if (*keys)
      print_keys();
    else
      fmt::print(
          "# Recipe reference\n\nPrinted by `hexad reference` from the program's own schema; a test compares.\n\n{}",
          config::reference<Recipe>());
    return base::ExitCode::done;
  });
}

}  // namespace hexad::app
