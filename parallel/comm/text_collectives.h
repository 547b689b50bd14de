// Collectives on texts and byte strings. Their lengths may differ between ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Returns the texts of all ranks, in the order of the ranks. Collective.
std::vector<std::string> gather_texts(const std::string& text, const ProcessGroup& group, device::Device device);
/// Returns the text of rank `root`. Collective.
std::string broadcast_text(const std::string& text, int root, const ProcessGroup& group, device::Device device);

/// Text of a rank, and the code that the rank passed with it.
struct RankText {
  int rank = 0;
  std::string text{};
  int code = 0;
};
/// Returns the text and the code of the lowest rank whose text is not empty. Returns nullopt if all texts are empty;
/// the ranks then exchange only one number. `code` must be at least 0. Collective.
std::optional<RankText> first_text(const std::string& text, int code, const ProcessGroup& group, device::Device device);

/// Calls `take` on rank 0 once for each rank, in the order of the ranks, with the bytes of that rank. Rank 0 has the
/// bytes of only one other rank in memory at a time. Collective.
void gather_bytes(const std::vector<uint8_t>& mine, const ProcessGroup& world, device::Device device,
                  const std::function<void(int rank, const std::vector<uint8_t>& bytes)>& take);

}  // namespace hexad::comm
