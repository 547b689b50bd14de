// Memory that a process may still allocate, and the memory pools that processes share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hexad::train {

/// Memory that several processes share: the machine's memory, or the memory limit of a control group (container, batch
/// job).
struct MemoryPool {
  int64_t id = 0;         // equal for all processes that share the pool; pools of other machines have other ids
  std::string name{};     // such as "the machine's memory"
  int64_t available = 0;  // bytes that can be allocated before the system swaps memory to disk or kills a process
};

/// Returns the pools from which this process allocates, beginning with the machine's memory. Returns an empty list if
/// the system does not report the pools. `root` replaces the root of the file system in tests.
std::vector<MemoryPool> memory_pools(const std::string& root = "");

/// Returns the bytes that this process may still allocate: the minimum of `available` over its pools, or a very large
/// number if no pool is known.
int64_t available_memory_bytes(const std::string& root = "");

}  // namespace hexad::train
