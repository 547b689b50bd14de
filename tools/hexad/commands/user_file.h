// Files that a command writes to a path given by the user.
#pragma once

#include <string>
#include <string_view>

namespace hexad::app {

/// Throws Error(usage) if `path` is an existing file that does not begin with `beginning`, unless the file is empty.
/// This ensures that a command replaces only its own earlier output. `kind` describes this output in the message.
void require_replaceable(const std::string& path, std::string_view beginning, std::string_view kind);

}  // namespace hexad::app
