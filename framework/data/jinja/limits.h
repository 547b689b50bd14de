// Limits of chat templates, which are not trusted, and the errors for templates that exceed a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/base/error.h"

namespace hexad::data::jinja {

inline constexpr size_t largest_template = size_t{256} << 10;  // bytes of a template's source
inline constexpr size_t largest_text = size_t{16} << 20;       // bytes of a rendering and of each text in it
inline constexpr int64_t max_steps = 1'000'000;                // steps of one rendering; see Site::spend()
inline constexpr int max_nested = 100;                         // depth of nested blocks and expressions
inline constexpr int max_nested_lists = 8;
inline constexpr int max_nested_calls = 8;     // depth of nested calls of macros
inline constexpr int64_t largest_indent = 16;  // spaces per level in the filter tojson
inline constexpr size_t longest_name = 100;    // bytes of a variable, member or keyword
inline constexpr size_t max_members = 100;     // members of a namespace

/// Throws Error(data) whose message begins with the path and the line of the template.
template <class... Parts>
[[noreturn]] void refuse_at(const std::string& path, int line, const Parts&... parts) {
  base::fail(base::ExitCode::data, path, ":", line, ": ", parts...);
}

/// A position in a template that is being rendered.
struct Site {
  const std::string& path;
  int line;
  int64_t& steps_left;

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    refuse_at(path, line, parts...);
  }
  /// Counts `steps` more steps. Callers count about one step for each statement, expression and list element, and for
  /// each 256 bytes of text. Throws Error(data) if a rendering takes more than max_steps.
  void spend(int64_t steps) const {
    steps_left -= steps;
    if (steps_left < 0)
      refuse("the template takes more than ", max_steps, " steps, the maximum; a loop in it may be too long");
  }
  /// Counts the steps for a new text of `bytes` bytes, like spend(). Also throws Error(data) if the text is longer than
  /// largest_text.
  void spend_text(size_t bytes) const {
    if (bytes > largest_text) refuse("makes a text of ", bytes, " bytes, expected at most ", largest_text);
    spend(1 + static_cast<int64_t>(bytes / 256));
  }
  /// Counts a search for `wanted` bytes in a text of `bytes` bytes. In the worst case, the search compares all wanted
  /// bytes at each position.
  void spend_search(size_t bytes, size_t wanted) const {
    spend(static_cast<int64_t>((1 + bytes / 256) * (1 + wanted / 64)));
  }
};

}  // namespace hexad::data::jinja
