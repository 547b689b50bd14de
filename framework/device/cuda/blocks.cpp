#include "framework/device/cuda/blocks.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"

namespace hexad::device::cuda {

void Blocks::add(void* begin, int64_t bytes, Marks former) {
  std::lock_guard lock(mutex_);
  Block& block = blocks_[reinterpret_cast<uintptr_t>(begin)];
  block = {bytes, std::move(former), {}};
  if (launching_) touch_locked(block, launching_);
}

Marks Blocks::remove(void* begin) {
  std::lock_guard lock(mutex_);
  const auto it = blocks_.find(reinterpret_cast<uintptr_t>(begin));
  base::require(it != blocks_.end(), "[cuda] a block was freed that is not there");
  const Block block = std::move(it->second);
  blocks_.erase(it);
  if (block.users.empty()) return block.former;
  Marks last;
  for (const auto& user : block.users) last.push_back(user->record());
  return last;
}

void Blocks::touch(const void* place, const std::shared_ptr<Queue>& queue) {
  const auto address = reinterpret_cast<uintptr_t>(place);
  std::lock_guard lock(mutex_);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return;
  --it;
  if (address < it->first + static_cast<uintptr_t>(it->second.bytes)) touch_locked(it->second, queue);
}

// Each queue waits for the former users by itself, so that a later one need not wait for this one.
void Blocks::touch_locked(Block& block, const std::shared_ptr<Queue>& queue) {
  if (std::find(block.users.begin(), block.users.end(), queue) != block.users.end()) return;
  for (const auto& mark : block.former) queue->wait(*mark);
  block.users.push_back(queue);
}

Blocks::Launch::Launch(Blocks& blocks, const std::shared_ptr<Queue>& queue) : blocks_(blocks) {
  std::lock_guard lock(blocks_.mutex_);
  before_ = std::exchange(blocks_.launching_, queue);
}

Blocks::Launch::~Launch() {
  std::lock_guard lock(blocks_.mutex_);
  blocks_.launching_ = before_;
}

}  // namespace hexad::device::cuda
