// Files that a command writes to a path given by the user.
#pragma once

#include <string>
#include <string_view>

namespace hexad::app {

/// Throws Error(usage) if `path` is an existing file that the command has not written: one that does not begin with
/// `beginning`. `kind` names what the command writes. A command therefore replaces only its own earlier output, which
/// it can make again.
void require_replaceable(const std::string& path, std::string_view beginning, std::string_view kind);

}  // namespace hexad::app
