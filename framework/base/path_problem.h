// Reasons why a file or folder named by the user cannot be read or created.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include "framework/base/error.h"

namespace hexad::base {

/// Returns the reason why `path` cannot be read as a regular file, for messages "PATH: reason". Examples are "no such
/// file", "is a directory", "is not a regular file but a pipe", and error texts of the system. The result is empty if
/// `path` can be read.
std::string file_problem(const std::string& path);

/// Like file_problem(), for a folder whose entries must be listed.
std::string folder_problem(const std::string& path);

/// Returns the reason for the error `error` (an errno) of a system call on `path`, for messages "PATH: reason". `thing`
/// is the expected kind, for example "file" or "folder".
std::string system_reason(const std::string& path, int error, std::string_view thing);

/// Returns the exit code for a file or folder that cannot be created: usage if the name is too long or leads through
/// too many symbolic links, otherwise resource.
ExitCode creation_exit_code(const std::error_code& error);

/// Returns the kind of file that an st_mode contains, for example "a directory", "a pipe" or "a character device".
std::string_view kind_of_file(unsigned mode);

}  // namespace hexad::base
