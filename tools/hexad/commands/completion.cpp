#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/hexad/commands/command.h"
#include "tools/hexad/usage.h"

namespace hexad::app {
namespace {

// Lines of the script's `case`; `path` is what leads to a command: "bench gemm". What "path" may be followed by: names,
// or the words that its first argument may be, or FILES; then KEYS, if keys of a recipe may follow. "path -": options.
// "path --option": its value.
std::string lines_of(const Command& command, const std::string& path) {
  std::vector<std::string> words, options;
  std::string below;
  for (const Command& sub : command.commands()) {
    words.push_back(sub.name());
    below += lines_of(sub, path.empty() ? sub.name() : path + " " + sub.name());
  }
  for (const Command::Taken& taken : command.takes()) {
    const std::string value = taken.words.empty() ? "FILES" : taken.words;
    if (taken.name.empty()) {
      if (words.empty()) words.push_back(value);
      continue;
    }
    options.push_back(taken.name);
    if (taken.has_value) below += fmt::format("    \"{} {}\") echo {} ;;\n", path, taken.name, value);
  }
  if (words.empty()) words.push_back("FILES");
  if (command.takes_overrides() && (command.takes("recipe") || command.takes("run"))) words.push_back("KEYS");
  return fmt::format("    \"{0}\") echo {1} ;;\n    \"{0} -\") echo {2} ;;\n", path, fmt::join(words, " "),
                     fmt::join(options, " ")) +
         below;
}

constexpr std::string_view zsh_head = R"(autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
)";

// Recipe keys are asked of the program, once a shell: a program of one's own has the same. `=` separates words for
// bash, so that a key's value is a word by itself and completed as a file. What is not completed here is, as a file.
constexpr std::string_view functions = R"(
_hexad() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} place="" given=0 next="" i words
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="${{place:+$place }}${{COMP_WORDS[i]}}"
    [[ ${{COMP_WORDS[i]}} != -* && $(_hexad_words "$next") ]] || break
    place=$next
  done
  for (( ; i < COMP_CWORD; i++)); do
    next=${{COMP_WORDS[i]}}
    if [[ $next != -* ]]; then
      given=$((given + 1))
    elif [[ $(_hexad_words "$place $next") ]]; then
      [[ ${{COMP_WORDS[i + 1]}} != "=" ]] || i=$((i + 1))
      i=$((i + 1))
    fi
  done
  if ((i > COMP_CWORD)); then
    words=$(_hexad_words "$place $next")
    word=${{word#=}}
  elif [[ $word == -* ]]; then
    words=$(_hexad_words "$place -")
  elif [[ $word == "=" || ${{COMP_WORDS[COMP_CWORD - 1]}} == "=" ]]; then
    return 0
  else
    words=$(_hexad_words "$place")
    if ((given == 0)); then
      words=${{words% KEYS}}
    elif [[ $words == *KEYS && $word == [a-z]* ]]; then
      [[ $_hexad_keys ]] || _hexad_keys=$("${{COMP_WORDS[0]}}" reference --keys 2>/dev/null | sed 's/$/=/')
      words=$_hexad_keys
    else
      return 0
    fi
  fi
  [[ $words != FILES ]] || return 0
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
