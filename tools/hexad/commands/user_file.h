// Files that a command writes to a path given by the user.
#pragma once

#include <string>
#include <string_view>

namespace hexad::app {

/// Throws Error(usage) if `path` is a non-empty file that does not begin with `beginning`. A command that calls this
/// function replaces only its own earlier output. `kind` describes this output in the message.
void require_replaceable(const std::string& path, std::string_view beginning, std::string_view kind);

/// Throws Error(usage) if the paths given to two options of a command are the same file. Otherwise, one output would
/// replace the other. An empty path means that the option is not given.
void require_two_files(std::string_view option, const std::string& path, std::string_view other_option,
                       const std::string& other_path);

}  // namespace hexad::app
