#include <iterator>
#include <memory>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/config/typed_recipe.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::app {

using namespace train;

namespace {

// Returns the path up to its first index: "a.b" for "a.b.0.c".
std::string without_index(const std::string& path) {
  size_t dot = path.find('.');
  while (dot != path.npos && (path[dot + 1] < '0' || path[dot + 1] > '9')) dot = path.find('.', dot + 1);
  return path.substr(0, dot);
}

// Prints the paths of all recipe keys except sections. A list is one key, even if its elements have keys.
void print_keys() {
  config::Problems problems;
  config::read<Recipe>(config::parse("{}", "no keys"), problems);
  std::set<std::string> paths;
  for (const auto& [path, key] : problems.known()) paths.insert(without_index(path));
  for (auto path = paths.begin(); path != paths.end(); ++path)
    if (const auto next = std::next(path); next == paths.end() || !next->starts_with(*path + "."))
      fmt::print("{}\n", *path);
}

// Prints a line "key word word ..." for each key whose value may be a word. The words are the schema's words and the
// names of registered parts.
void print_values(const Extensions& extensions) {
  const auto print = [](const std::string& key, const std::vector<std::string>& words) {
    fmt::print("{} {}\n", key, fmt::join(words, " "));
  };
  for (const config::KeyWords& key : config::words_of_keys<Recipe>()) print(key.path, key.words);
  print("model.mlp", extensions.feed_forward_names());
  print("model.moe.router", extensions.router_names());
  print("optim.name", extensions.optimizers.names());
  print("schedule.moe.order", extensions.moe_order_names());
  print("data.source", extensions.sources.names());
  print("checkpoint.resume", {"auto", "none"});
}

}  // namespace

void add_reference(const Program& program) {
  const Command command =
      program.root.add_command("reference", "Print the recipe reference (docs/recipe-reference.md)");
  struct Options {
    bool keys = false, values = false;
  };
  auto options = std::make_shared<Options>();
  command.add_flag("--keys", options->keys, "print only the recipe's keys, one per line");
  command.add_flag("--values", options->values,
                   "print only the keys whose values are words, each with its legal words, one key per line");
  command.run(on_one_rank(command, [program, options] {
    if (options->keys)
      print_keys();
    else if (options->values)
      print_values(program.extensions);
    else
      fmt::print(
          "# Recipe reference\n\nPrinted by `hexad reference` from the program's own schema. A test compares this page "
          "with the output.\n\n{}",
          config::reference<Recipe>());
    return base::ExitCode::done;
  }));
}

}  // namespace hexad::app
