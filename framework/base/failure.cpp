#include "framework/base/failure.h"

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

namespace hexad::base {
namespace {

// True if a call failed because memory, disk space or file descriptors are exhausted.
bool is_lack(const std::error_code& error) {
  return error == std::errc::not_enough_memory || error == std::errc::no_space_on_device || error.value() == EDQUOT ||
         error == std::errc::too_many_files_open || error == std::errc::too_many_files_open_in_system;
}

}  // namespace

Failure failure_of(const std::exception& e) {
  if (const auto* error = dynamic_cast<const Error*>(&e)) return {e.what(), error->code()};
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&e))
    return {cat(error->path1().string(), ": ", error->code().message()),
            is_lack(error->code()) ? ExitCode::resource : ExitCode::data};
  if (dynamic_cast<const std::system_error*>(&e) != nullptr) return {e.what(), ExitCode::resource};
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) return {"out of memory", ExitCode::resource};
  return {cat("internal error: ", e.what()), ExitCode{1}};
}

bool is_closed_pipe(const std::exception& e) {
  const auto* error = dynamic_cast<const std::system_error*>(&e);
  return error != nullptr && error->code() == std::errc::broken_pipe;
}

}  // namespace hexad::base
