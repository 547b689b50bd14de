#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/hexad/commands/command.h"
#include "tools/hexad/usage.h"

namespace hexad::app {
namespace {

// Names and options of a command, a line of the script's `case` each; `path` is what leads to it: "bench gemm".
std::string lines_of(const Command& command, const std::string& path) {
  std::vector<std::string> words;
  std::string below;
  for (const Command& sub : command.commands()) {
    words.push_back(sub.name());
    below += lines_of(sub, path.empty() ? sub.name() : path + " " + sub.name());
  }
  const std::vector<std::string> options = command.option_names();
  words.insert(words.end(), options.begin(), options.end());
  if (command.takes_overrides()) words.push_back("KEYS");
  return fmt::format("    \"{}\") echo {} ;;\n", path, fmt::join(words, " ")) + below;
}

constexpr std::string_view zsh_head = R"(autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
)";

// Recipe keys are asked of the program, once a shell: a program of one's own has the same. `=` separates words for
// bash, so that a key's value is a word by itself and completed as a file.
constexpr std::string_view functions = R"(
_hexad() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} place="" next i words
  COMPREPLY=()
  [[ $word != "=" && $before != "=" ]] || return 0
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="${{place:+$place }}${{COMP_WORDS[i]}}"
    [[ $(_hexad_words "$next") ]] || break
    place=$next
  done
  words=$(_hexad_words "$place")
  if [[ $words == *" KEYS" ]]; then
    words=${{words% KEYS}}
    if [[ $word == [a-z]* ]]; then
      [[ $_hexad_keys ]] || _hexad_keys=$("${{COMP_WORDS[0]}}" reference --keys 2>/dev/null | sed 's/$/=/')
      words+=" $_hexad_keys"
    fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ ${{COMPREPLY[0]-}} != *= ]] || compopt -o nospace 2>/dev/null
  return 0
}}
complete -o default -F _hexad {0}
)";

std::string script(const Command& app, const std::string& shell) {
  return fmt::format("# Completion of {0} for {1}, printed by `{0} completion {1}`.\n", app.name(), shell) +
         (shell == "zsh" ? std::string(zsh_head) : "") + "_hexad_keys=\n_hexad_words() {\n  case \"$1\" in\n" +
         lines_of(app, "") + "  esac\n}" + fmt::format(functions, app.name());
}

}  // namespace

void add_completion(const Program& program) {
  const Command command =
      program.root.add_command("completion", "Print a script that completes commands, options and keys");
  auto shell = std::make_shared<std::string>();
  command.add_option("shell", shell.get(), "bash: source <(hexad completion bash); zsh alike")
      .required()
      .legal(one_of({"bash", "zsh"}));
  command.run([program, shell] {
    fmt::print("{}", script(program.root, *shell));
    return base::ExitCode::done;
  });
}

}  // namespace hexad::app
