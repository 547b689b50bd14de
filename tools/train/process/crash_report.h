// Report that a rank leaves behind when it dies of a bug: rank, step and backtrace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace hexad::train {

/// SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT are reported on standard error before they end the process as they would
/// have. Signals that somebody handles already (a sanitizer) are left alone.
void install_crash_handlers();

/// Reports go to the end of this file, too, and name the rank.
void report_crashes_to(const std::filesystem::path& log, int rank);

/// Writes to the end of that file that this rank ends, and why. Nothing before report_crashes_to().
void report_end(std::string_view why);

/// Reports name the optimizer step that is being computed.
void report_crashes_in_step(int64_t step);

}  // namespace hexad::train
