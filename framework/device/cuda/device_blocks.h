// Record of the queues that have work on each block of memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "framework/device/cuda/queue.h"

namespace hexad::device::cuda {

/// Points in queues that must be passed before the next user accesses the memory.
using Marks = std::vector<std::shared_ptr<const DeviceMark>>;

/// Allows reuse of freed memory in the order of issue, without waiting on the host. The first work of each queue on a
/// block waits, in this queue, for earlier work of other queues on the same memory. Therefore every launch must
/// announce the memory that it uses. Thread-safe.
class Blocks {
 public:
  /// Adds a new block. Its memory may be used once the queues have passed `former`. `whole`: the block is one separate
  /// allocation of the card's memory (whole_blocks.h).
  void add(void* begin, int64_t bytes, Marks former, bool whole = false);
  /// Removes a block. Returns a mark for each queue that used it: the end of the use, or the current end of the queue
  /// if end_use() was not called. If no queue used the block, returns the marks passed to add(). If the block had
  /// companions, the host waits for the returned marks.
  Marks remove(void* begin);
  /// Announces a launch in `queue` that uses the block around `place`. Does nothing if `place` is in no block.
  void touch(const void* place, const std::shared_ptr<Queue>& queue);
  /// Ends the use of the block around `place` by `queue` at the queue's current end, until the queue touches it again.
  /// The next user of the memory then does not wait for later work of `queue`, even if the block is freed after that
  /// work. Does nothing if `place` is in no block.
  void end_use(const void* place, const std::shared_ptr<Queue>& queue);

  /// Makes later large long-lived blocks whole, because a library registers them.
  void make_whole() { make_whole_ = true; }
  bool makes_whole() const { return make_whole_; }
  struct Extent {
    void* begin;
    int64_t bytes;
  };
  /// Returns the block around `place` if it is whole.
  std::optional<Extent> whole(const void* place);
  /// Keeps `companion` alive as long as the block that begins at `begin`.
  void accompany(void* begin, std::shared_ptr<const void> companion);

  /// Marks, during its lifetime, new blocks as used by `queue`: temporary blocks that a kernel's launch allocates. Only
  /// one Launch may exist at a time.
  class Launch {
   public:
    Launch(Blocks& blocks, const std::shared_ptr<Queue>& queue);
    ~Launch();
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

   private:
    Blocks& blocks_;
    std::shared_ptr<Queue> before_;
  };

 private:
  struct User {
    std::shared_ptr<Queue> queue;
    std::shared_ptr<const DeviceMark> end{};  // null: the queue's end when the block is freed
  };
  struct Block {
    int64_t bytes;
    Marks former;
    bool whole = false;
    std::vector<User> users{};
    std::vector<std::shared_ptr<const void>> companions{};
  };
  using ByBegin = std::map<uintptr_t, Block>;
  ByBegin::iterator around(const void* place);
  static User* user_of(Block& block, const std::shared_ptr<Queue>& queue);
  void touch_locked(Block& block, const std::shared_ptr<Queue>& queue);

  std::mutex mutex_;
  ByBegin blocks_;
  std::shared_ptr<Queue> launching_;
  std::atomic<bool> make_whole_ = false;
};

}  // namespace hexad::device::cuda
