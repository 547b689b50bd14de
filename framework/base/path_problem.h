// Why something that a user names cannot be read.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include "framework/base/error.h"

namespace hexad::base {

/// Completes "PATH: " if `path` cannot be read as a regular file; empty if it can. Such as "no such file", "is a
/// directory", "is not a regular file but a pipe", or the system's reason ("Too many levels of symbolic links").
std::string file_problem(const std::string& path);

/// The same for a folder whose entries can be listed.
std::string folder_problem(const std::string& path);

/// Completes "PATH: " after a call that set `error` for `path`. `thing` is what was expected there: "file", "folder".
std::string system_reason(const std::string& path, int error, std::string_view thing);

/// Exit code of a file or folder that cannot be made: usage for a name that can never be, resource otherwise.
ExitCode code_of_making(const std::error_code& error);

/// Names the kind of file that st_mode tells: "a directory", "a pipe", "a character device", ...
std::string_view kind_of_file(unsigned mode);

}  // namespace hexad::base
