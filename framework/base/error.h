// Errors and exit codes. User errors carry the exit code of the program; broken invariants throw std::logic_error.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace hexad::base {

/// Exit codes of the program; launch scripts rely on the values.
enum class ExitCode : int {
  done = 0,
  usage = 2,          // recipe or command line
  data = 3,           // dataset, tokenizer or checkpoint
  resource = 4,       // memory, disk
  numeric = 5,        // NaN or Inf that persists
  communication = 6,  // hang or failed collective
  peer_lost = 7,      // another rank ended
  preempted = 75,     // state saved; start the program again
};

/// A failure that is not a bug of this program. The message names the subject, its value, the expected value and the
/// place.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Concatenates printable values.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

[[noreturn]] void fail_invariant(const std::string& message);

/// Throws std::logic_error unless `ok` is true. Use it for conditions that only a bug can break. The message is built
/// only on failure.
template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail_invariant(cat(parts...));
}

/// Throws Error with `code` and the concatenated message.
template <class... Parts>
[[noreturn]] void fail(ExitCode code, const Parts&... parts) {
  throw Error(code, cat(parts...));
}

}  // namespace hexad::base
