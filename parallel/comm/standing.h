// State of a rank, as its engine sees it: ranks tell it to each other when something hangs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::comm {

struct Standing {
  enum class Kind : uint8_t {
    waits,  // a thread of it is blocked in an operation for which others are missing
    files,  // it has announced file work
    works   // neither: it computes, or hangs in its own code
  };
  Kind kind = Kind::works;
  double seconds = 0;          // without any progress
  std::vector<int> missing{};  // world ranks that it waits for
  std::string text{};          // one line: the operation; the file work; or the last operation

  bool operator==(const Standing&) const = default;
};

/// Converts a standing to text to send, cut to what a note holds.
std::string to_note(const Standing& standing);
/// Throws Error(communication) when it is none.
Standing parse_standing(std::string_view note);

/// "1, 2, 3", or "1, 2, ... (40 ranks)".
std::string list_of(const std::vector<int>& ranks);

}  // namespace hexad::comm
