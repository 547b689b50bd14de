// Collectives of texts and byte strings whose lengths differ by rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Returns the texts of all ranks, in rank order, on every rank.
std::vector<std::string> gather_texts(const std::string& text, const ProcessGroup& group, device::Device device);
/// Returns the text of rank `root` on every rank.
std::string broadcast_text(const std::string& text, int root, const ProcessGroup& group, device::Device device);

/// Calls `take` on rank 0 with the bytes of every rank, beginning with its own. Rank 0 holds the bytes of one rank at a
/// time.
void gather_bytes(const std::vector<uint8_t>& mine, const ProcessGroup& world, device::Device device,
                  const std::function<void(int rank, const std::vector<uint8_t>& bytes)>& take);

}  // namespace hexad::comm
