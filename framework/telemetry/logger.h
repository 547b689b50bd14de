// Loggers, with one log file for each rank. They are passed as arguments; spdlog's global registry is not used.
#pragma once

#include <spdlog/logger.h>

#include <filesystem>
#include <memory>

namespace hexad::telemetry {

/// Makes a thread-safe logger named "rank N". The logger appends to the file `path` and, on rank 0, also writes to
/// standard error. Missing folders of `path` are created. Each line of the file begins with the time in UTC, as in all
/// other records of a run. The local time follows if it differs from UTC. Lines are written without buffering. The
/// logger reports an error once on standard error if the file can no longer be written (full disk). Logging then
/// continues without exceptions. This function throws base::Error(resource) if `path` cannot be opened.
std::shared_ptr<spdlog::logger> make_logger(const std::filesystem::path& path, int rank,
                                            spdlog::level::level_enum level);

/// Returns a logger that writes only to the file of `logger`. Use it for details that help after a failure but would
/// fill a terminal.
std::shared_ptr<spdlog::logger> file_only(const spdlog::logger& logger);

}  // namespace hexad::telemetry
