#include "tools/hexad/failure.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace hexad::app {

using base::cat;
using base::ExitCode;

Failure failure_of(const std::exception& e) {
  if (const auto* error = dynamic_cast<const base::Error*>(&e)) return {error->code(), e.what()};
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&e))
    return {ExitCode::data, cat(error->path1().string(), ": ", error->code().message())};
  if (dynamic_cast<const std::system_error*>(&e) != nullptr) return {ExitCode::resource, e.what()};
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) return {ExitCode::resource, "out of memory"};
  return {ExitCode{1}, cat("internal error: ", e.what())};
}

bool is_closed_pipe(const std::exception& e) {
  const auto* error = dynamic_cast<const std::system_error*>(&e);
  return error != nullptr && error->code() == std::errc::broken_pipe;
}

}  // namespace hexad::app
