// Report of a rank that crashes: rank, step and backtrace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace hexad::train {

/// Reports SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT on standard error before they end the process as usual. Skips
/// signals that already have a handler, such as that of a sanitizer.
void install_crash_handlers();

/// Also appends later reports, with the rank, to the file `log`.
void report_crashes_to(const std::filesystem::path& log, int rank);

/// Appends the reason for this rank's end to the log. Does nothing before report_crashes_to().
void report_end(std::string_view why);

/// Sets the optimizer step for later reports.
void report_crashes_in_step(int64_t step);

}  // namespace hexad::train
