// The memory that a process may still take, and who shares it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hexad::train {

/// Memory that several processes share: that of the machine, or of a control group (container, batch job) with a limit.
struct MemoryPool {
  int64_t id = 0;         // equal for processes that share the pool; different for pools of other machines
  std::string name{};     // "the machine's memory", "the limit of control group /job"
  int64_t available = 0;  // bytes that may still be taken without others being pushed out or this process being ended
};

/// Pools that this process takes its memory from, the machine's first. Empty where the system does not say. `root`: of
/// the file system that says so; for tests.
std::vector<MemoryPool> memory_pools(const std::string& root = "");

/// Bytes that this process may still take: the least of its pools, or a very large number where nothing is known.
int64_t available_memory_bytes(const std::string& root = "");

}  // namespace hexad::train
