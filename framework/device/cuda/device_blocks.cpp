#include "framework/device/cuda/device_blocks.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"

namespace hexad::device::cuda {

void Blocks::add(void* begin, int64_t bytes, Marks former, bool whole) {
  std::lock_guard lock(mutex_);
  Block& block = blocks_[reinterpret_cast<uintptr_t>(begin)];
  block = {bytes, std::move(former), whole};
  if (launching_) touch_locked(block, launching_);
}

Marks Blocks::remove(void* begin) {
  Block block;  // declared before the lock, so that the companions are destroyed after the lock is released
  Marks last;
  {
    std::lock_guard lock(mutex_);
    const auto it = blocks_.find(reinterpret_cast<uintptr_t>(begin));
    base::require(it != blocks_.end(), "[cuda] the unknown block ", begin,
                  " was freed; expected the first address of a block in use");
    block = std::move(it->second);
    blocks_.erase(it);
    for (const User& user : block.users) last.push_back(user.end ? user.end : user.queue->record());
  }
  if (!block.companions.empty())
    for (const auto& mark : last) mark->wait();
  return block.users.empty() ? block.former : last;
}

// Returns the block that contains the address `place`, or end() if there is none.
Blocks::ByBegin::iterator Blocks::around(const void* place) {
  const auto address = reinterpret_cast<uintptr_t>(place);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return blocks_.end();
  --it;
  return address < it->first + static_cast<uintptr_t>(it->second.bytes) ? it : blocks_.end();
}

void Blocks::touch(const void* place, const std::shared_ptr<Queue>& queue) {
  std::lock_guard lock(mutex_);
  if (const auto it = around(place); it != blocks_.end()) touch_locked(it->second, queue);
}

void Blocks::end_use(const void* place, const std::shared_ptr<Queue>& queue) {
  std::lock_guard lock(mutex_);
  const auto it = around(place);
  User* const user = it == blocks_.end() ? nullptr : find_user(it->second, queue);
  if (user) user->end = queue->record();
}

std::optional<Blocks::Extent> Blocks::whole(const void* place) {
  std::lock_guard lock(mutex_);
  const auto it = around(place);
  if (it == blocks_.end() || !it->second.whole) return {};
  return Extent{reinterpret_cast<void*>(it->first), it->second.bytes};
}

void Blocks::accompany(void* begin, std::shared_ptr<const void> companion) {
  std::lock_guard lock(mutex_);
  blocks_.at(reinterpret_cast<uintptr_t>(begin)).companions.push_back(std::move(companion));
}

// Returns the record of `queue` as a user of the block, or null.
Blocks::User* Blocks::find_user(Block& block, const std::shared_ptr<Queue>& queue) {
  const auto it = std::ranges::find(block.users, queue, &User::queue);
  return it == block.users.end() ? nullptr : &*it;
}

// Records `queue` as a user and makes it wait for the former users of the memory. Every queue waits for the former
// users directly, so no queue has to wait for another user of this block.
void Blocks::touch_locked(Block& block, const std::shared_ptr<Queue>& queue) {
  if (User* const user = find_user(block, queue)) {
    user->end.reset();
    return;
  }
  for (const auto& mark : block.former) queue->wait(*mark);
  block.users.push_back({queue});
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
