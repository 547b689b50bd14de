// Options and helpers of the commands that read a recipe.
#pragma once

#include <string>

#include <fmt/format.h>

#include "tools/hexad/command_line.h"
#include "tools/hexad/usage.h"
#include "tools/train/process/machine.h"

namespace hexad::app {

inline void add_include_root(const Command& command, std::string& folder) {
  command
      .add_option("--include-root", &folder,
                  "folder that may contain included files, in addition to the recipe's folder")
      .path();
}

/// Adds --stage, whose value is an argument of document_of_stage().
inline Option add_stage(const Command& command, int64_t& stage) {
  return command
      .add_option("--stage", &stage, "number of the stage of training, counted from 1; 0: the recipe has no stages")
      .legal(whole_number(0, 1 << 20));
}

/// Returns the arguments " --include-root FOLDER 'key=value' ..." for a command that the user can run. Quotes them for
/// a shell.
template <class Options>
std::string recipe_words(const Options& o) {
  std::string text;
  if (!o.include_root.empty()) text += fmt::format(" --include-root {}", train::shell_word(o.include_root));
  for (const std::string& override : o.overrides)
    text += override.find('\'') == override.npos ? fmt::format(" '{}'", override)
                                                 : fmt::format(" {}", train::shell_word(override));
  return text;
}

}  // namespace hexad::app
