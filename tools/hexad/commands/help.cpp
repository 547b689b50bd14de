#include <fmt/core.h>

#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"

namespace hexad::app {
namespace {

base::ExitCode help(const Command& root, const std::vector<std::string>& words) {
  const Command command = find_command(root, words);
  std::string found = root.name();
  for (const std::string& word : words) {
    if (found == command.full_name()) base::fail(base::ExitCode::usage, explain_extra(command, word));
    found += " " + word;
  }
  fmt::print("{}", command.help());
  return base::ExitCode::done;
}

}  // namespace

void add_help(const Program& program) {
  const Command command = program.root.add_command("help", "Show the help of a command, like its --help");
  auto words = std::make_shared<std::vector<std::string>>();
  command.add_option("command", words.get(),
                     "name of a command, such as train or bench gemm; default: list all commands");
  command.run(on_one_rank(command, [program, words] { return help(program.root, *words); }));
}

}  // namespace hexad::app
