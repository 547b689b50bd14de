// Errors and exit codes. An Error contains the exit code of the program. A std::logic_error reports a bug.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace hexad::base {

/// Exit codes of the program. Launch scripts depend on their values.
enum class ExitCode : int {
  done = 0,
  usage = 2,          // wrong recipe or command line
  data = 3,           // wrong or damaged dataset, tokenizer or checkpoint
  resource = 4,       // too little memory or disk space
  numeric = 5,        // NaN or infinity that persists
  communication = 6,  // hang or failed collective
  peer_lost = 7,      // another rank ended
  preempted = 75,     // the state was saved; start the program again
};

/// A failure that is not a bug of this program. The message should name the subject, its value, the expected value and
/// the location.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Appends the printed value to `text`. Uses no stream for texts and for integers of types with more than one byte,
/// because constructing a stream is slow.
template <class Part>
void append_printed(std::string& text, const Part& part) {
  constexpr bool is_text = std::is_same_v<Part, std::string> || std::is_same_v<Part, std::string_view> ||
                           std::is_convertible_v<const Part&, const char*>;
  constexpr bool is_number = std::is_integral_v<Part> && !std::is_same_v<Part, bool> && sizeof(Part) > 1;
  if constexpr (is_text) {
    text += part;
  } else if constexpr (is_number) {
    text += std::to_string(part);
  } else {
    std::ostringstream out;
    out << part;
    text += out.str();
  }
}

/// Returns the concatenation of the printed values.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string text;
  (append_printed(text, parts), ...);
  return text;
}

[[noreturn]] void fail_invariant(const std::string& message);

/// Throws std::logic_error if `ok` is false. Use require() only for conditions whose failure is a bug. The message is
/// built only if `ok` is false.
template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail_invariant(cat(parts...));
}

/// Throws an Error with exit code `code` and the concatenation of `parts` as its message.
template <class... Parts>
[[noreturn]] void fail(ExitCode code, const Parts&... parts) {
  throw Error(code, cat(parts...));
}

}  // namespace hexad::base
