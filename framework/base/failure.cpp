#include "framework/base/failure.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace hexad::base {

Failure failure_of(const std::exception& e) {
  if (const auto* error = dynamic_cast<const Error*>(&e)) return {e.what(), error->code()};
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&e))
    return {cat(error->path1().string(), ": ", error->code().message()), ExitCode::data};
  if (dynamic_cast<const std::system_error*>(&e) != nullptr) return {e.what(), ExitCode::resource};
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) return {"out of memory", ExitCode::resource};
  return {cat("internal error: ", e.what()), ExitCode{1}};
}

bool is_closed_pipe(const std::exception& e) {
  const auto* error = dynamic_cast<const std::system_error*>(&e);
  return error != nullptr && error->code() == std::errc::broken_pipe;
}

}  // namespace hexad::base
