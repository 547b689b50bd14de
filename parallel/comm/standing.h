// State of a rank as seen by its engine. Ranks exchange it if an operation hangs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::comm {

struct Standing {
  enum class Kind : uint8_t {
    waits,  // a thread of the rank is blocked in an operation for which other ranks are missing
    files,  // the rank has announced file work
    works   // neither of these: the rank computes, or hangs in its own code
  };
  Kind kind = Kind::works;
  double seconds = 0;          // seconds without any progress
  std::vector<int> missing{};  // world ranks that this rank waits for
  std::string text{};          // one line: the operation, the file work, or the last operation

  bool operator==(const Standing&) const = default;
};

/// Converts a standing to the text of a note, cut to the longest note.
std::string to_note(const Standing& standing);
/// Reads a standing from a note. Throws Error(communication) if the note holds none.
Standing parse_standing(std::string_view note);

/// Returns "1, 2, 3", or "1, 2, ... (40 ranks)".
std::string list_of(const std::vector<int>& ranks);

}  // namespace hexad::comm
