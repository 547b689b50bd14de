#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"

namespace hexad::app {
namespace {

// Returns the legal words of an option or a positional argument. Without legal words, returns a kind of file: RECIPES,
// FOLDERS or FILES.
std::string value_of(const Command::Taken& taken) {
  if (!taken.words.empty()) return taken.words;
  if (taken.argument == "recipe" || taken.argument == "input") return "RECIPES";
  if (taken.argument == "run" || taken.argument == "path" || taken.argument == "model") return "FOLDERS";
  return "FILES";
}

// Returns branches for the `case` statement of the script. `path` contains the words of a command, such as "bench
// gemm".
// - The branch "path" prints the words that may follow: subcommands, legal words of the first argument, or a kind of
//   file. It also prints KEYS if recipe keys may follow.
// - The branch "path -" prints the options.
// - The branch "path --option" prints the legal words of the option, or a kind of file.
std::string lines_of(const Command& command, const std::string& path) {
  std::vector<std::string> words, options;
  std::string below;
  for (const Command& sub : command.commands()) {
    words.push_back(sub.name());
    below += lines_of(sub, path.empty() ? sub.name() : path + " " + sub.name());
  }
  for (const Command::Taken& taken : command.takes()) {
    const std::string value = value_of(taken);
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

// Returns the branches for the words after `help`: names of commands and subcommands. In the script, these branches
// precede the branches that lines_of() returns for `help`.
std::string lines_of_help(const Command& command, const std::string& path) {
  std::vector<std::string> names;
  std::string below;
  for (const Command& sub : command.commands()) {
    names.push_back(sub.name());
    below += lines_of_help(sub, path + " " + sub.name());
  }
  return names.empty() ? "" : fmt::format("    \"{}\") echo {} ;;\n", path, fmt::join(names, " ")) + below;
}

constexpr std::string_view zsh_head = R"(autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
)";

// In a session of bash or zsh, the script runs the program twice: for the keys of recipes, and for their legal values.
// Therefore the script also works for other programs built on the library. In bash, `=` separates words, so the value
// of a key is a separate word. In zsh, `=` does not separate words. If the script has no words to propose, the shell
// completes file names.
constexpr std::string_view functions = R"(
_hexad_look_up() {{
  [[ $_hexad_values ]] || _hexad_values=$("${{COMP_WORDS[0]}}" reference --values 2>/dev/null)
  words=$(sed -n "s/^$1 //p" <<<"$_hexad_values")
}}
_hexad_paths() {{
  local IFS=$'\n'
  COMPREPLY=($(compgen -d -- "$2"; [[ ! $1 ]] || compgen -f -X "!$1" -- "$2"))
  compopt -o filenames 2>/dev/null
  return 0
}}
_hexad() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} place="" given=0 next="" before="" key i words
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
    key=${{COMP_WORDS[COMP_CWORD - 1]}}
    [[ $key != "=" ]] || key=${{COMP_WORDS[COMP_CWORD - 2]}}
    _hexad_look_up "$key"
    word=${{word#=}}
  else
    words=$(_hexad_words "$place")
    if ((given == 0)); then
      words=${{words% KEYS}}
    elif [[ $words == *KEYS && $word == [a-z]*=* ]]; then
      before=${{word%%=*}}=
      _hexad_look_up "${{before%=}}"
      word=${{word#*=}}
      [[ $words ]] || COMPREPLY=($(compgen -P "$before" -f -- "$word"))
    elif [[ $words == *KEYS && $word == [a-z]* ]]; then
      [[ $_hexad_keys ]] || _hexad_keys=$("${{COMP_WORDS[0]}}" reference --keys 2>/dev/null | sed 's/$/=/')
      words=$_hexad_keys
    else
      return 0
    fi
  fi
  case $words in
    "" | FILES) return 0 ;;
    RECIPES) _hexad_paths '*.y*ml' "$word" ;;
    FOLDERS) _hexad_paths "" "$word" ;;
    *) COMPREPLY=($(compgen -P "$before" -W "$words" -- "$word")) ;;
  esac
  [[ ${{COMPREPLY[0]-}} != *= ]] || compopt -o nospace 2>/dev/null
  return 0
}}
complete -o default -F _hexad {0}
)";

// In fish, the function runs bash's completion with the words before the cursor. In fish, `=` does not separate words.
// If bash completes file names, the function appends a slash to folders, so that fish does not end the word.
constexpr std::string_view fish_function = R"(function _hexad_complete
  set -l word (commandline -ct)
  set -l found (bash -c '
source <("$1" completion bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) slash=
compopt() { [[ $2 != filenames ]] || slash=/; }
_hexad
for word in "${COMPREPLY[@]}"; do
  [[ ! -d $word ]] || word+=$slash
  printf "%s\n" "$word"
done
' bash (commandline -opc) "$word" 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path "$word"
  end
end
)";

std::string script(const Command& app, const std::string& shell) {
  const std::string head =
      fmt::format("# Completion of {0} for {1}, printed by `{0} completion {1}`.\n", app.name(), shell);
  if (shell == "fish")
    return base::cat(head, fish_function, "complete -c ", app.name(), " -f -a '(_hexad_complete)'\n");
  return head + (shell == "zsh" ? std::string(zsh_head) : "") +
         "_hexad_keys=\n_hexad_values=\n_hexad_words() {\n  case \"$1\" in\n" + lines_of_help(app, "help") +
         lines_of(app, "") + "  esac\n}" + fmt::format(functions, app.name());
}

}  // namespace

void add_completion(const Program& program) {
  const Command command =
      program.root.add_command("completion", "Print a shell script that completes commands, options and keys");
  auto shell = std::make_shared<std::string>();
  command
      .add_option("shell", shell.get(),
                  "bash, zsh or fish, as in: source <(hexad completion bash); hexad completion fish | source")
      .required()
      .legal(one_of({"bash", "zsh", "fish"}));
  command.run(on_one_rank(command, [program, shell] {
    fmt::print("{}", script(program.root, *shell));
    return base::ExitCode::done;
  }));
}

}  // namespace hexad::app
