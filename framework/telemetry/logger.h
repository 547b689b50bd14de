// One log file a rank. Loggers are values handed to those who log: spdlog's global registry is not used.
#pragma once

#include <spdlog/logger.h>

#include <filesystem>
#include <memory>
#include <string_view>

namespace hexad::telemetry {

/// A thread-safe logger named "rank N" that appends to `path` (folders are created) and, on rank 0, also writes to
/// standard error. A line of the file begins with the time in UTC, as all else that a run writes, and the local one
/// beside it. Each line is written at once. When the file cannot be written any more (full disk), one line on standard
/// error says so and logging goes on without an exception. Throws base::Error(resource) when `path` cannot be opened.
std::shared_ptr<spdlog::logger> make_logger(const std::filesystem::path& path, int rank,
                                            spdlog::level::level_enum level);

/// Writes to the file of such a logger alone: what is looked up after a failure and would be noise on a terminal.
std::shared_ptr<spdlog::logger> file_only(const spdlog::logger& logger);

/// "trace", "debug", "info", "warning", "error", "critical", "off"; throws base::Error(usage) naming these.
spdlog::level::level_enum log_level_from_name(std::string_view name);

}  // namespace hexad::telemetry
