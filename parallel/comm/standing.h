// Activity of a rank, determined by the rank's engine. Ranks exchange this information if an operation hangs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::comm {

struct Standing {
  enum class Kind : uint8_t {
    waits,  // a thread of the rank is blocked in an operation that other ranks have not reached
    files,  // the rank performs file work that it has announced
    works   // in all other cases: the rank computes, or hangs in its own code
  };
  Kind kind = Kind::works;
  double seconds = 0;          // seconds without progress
  std::vector<int> missing{};  // world ranks for which this rank waits
  std::string text{};          // one line about the operation, the file work, the last operation or the failure

  bool operator==(const Standing&) const = default;
};

/// Converts a standing to the text of a note. Truncates the list of missing ranks and the text, so that they fit into a
/// note.
std::string to_note(const Standing& standing);
/// Reads a standing from a note. Throws Error(communication) if the note does not contain a standing.
Standing parse_standing(std::string_view note);

/// Returns a text like "rank 1", "ranks 1, 2" or "ranks 1, 2, ... (40 in all)".
std::string list_of(const std::vector<int>& ranks);

}  // namespace hexad::comm
