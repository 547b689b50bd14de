// One log file per rank. Loggers are passed as values; spdlog's global registry is not used.
#pragma once

#include <spdlog/logger.h>

#include <filesystem>
#include <memory>
#include <string_view>

namespace hexad::telemetry {

/// Makes a thread-safe logger named "rank N" that appends to `path` (folders are created) and, on rank 0, also writes
/// to standard error. A line of the file begins with the time in UTC, like all other records of a run, followed by the
/// local time. Each line is written without buffering. If the file can no longer be written (full disk), one line on
/// standard error reports it, and logging continues without an exception. Throws base::Error(resource) if `path` cannot
/// be opened.
std::shared_ptr<spdlog::logger> make_logger(const std::filesystem::path& path, int rank,
                                            spdlog::level::level_enum level);

/// Returns a logger that writes only to the file of `logger`: for details that are useful after a failure but too many
/// for a terminal.
std::shared_ptr<spdlog::logger> file_only(const spdlog::logger& logger);

/// Parses "trace", "debug", "info", "warning", "error", "critical" or "off". Throws base::Error(usage) naming these.
spdlog::level::level_enum log_level_from_name(std::string_view name);

}  // namespace hexad::telemetry
