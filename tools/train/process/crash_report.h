// Reports a crash of this rank: rank, step and backtrace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace hexad::train {

/// Installs handlers that report SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT on standard error before the signal ends
/// the process as usual. Skips signals that are ignored or already have a handler, such as a sanitizer's handler.
void install_crash_handlers();

/// Makes later reports name `rank` (earlier reports name rank 0). Later reports are also appended to the file `log`.
void report_crashes_to(const std::filesystem::path& log, int rank);

/// Appends the reason why this rank ends to the log. Does nothing before report_crashes_to().
void report_end(std::string_view why);

/// Sets the optimizer step that later reports show.
void report_crashes_in_step(int64_t step);

}  // namespace hexad::train
