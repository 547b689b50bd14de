// Record of the queues that use each block of memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "framework/device/cuda/queue.h"

namespace hexad::device::cuda {

/// Points in queues. The next user of a block's memory may access the memory once all these points are passed.
using Marks = std::vector<std::shared_ptr<const DeviceMark>>;

/// Allows freed memory to be reused in the order of issue, without a wait on the host. Before a queue first uses a
/// block, it waits for the former users of the block's memory. Therefore every launch must announce the memory that it
/// uses. Thread-safe.
class Blocks {
 public:
  /// Adds a new block. A queue waits for `former` before it uses the block's memory. `whole` means that the block is a
  /// separate allocation of the driver (whole_blocks.h).
  void add(void* begin, int64_t bytes, Marks former, bool whole = false);
  /// Removes a block. Returns one mark for each queue that used the block: the mark set by end_use() or, without one,
  /// the queue's current end. Returns the marks passed to add() if no queue used the block. If the block has companions
  /// (see accompany()), blocks the host until all queues have finished using the block.
  Marks remove(void* begin);
  /// Announces a launch in `queue` that uses the block containing the address `place`. Does nothing if no block
  /// contains it.
  void touch(const void* place, const std::shared_ptr<Queue>& queue);
  /// Declares that, until the next touch(), later work of `queue` does not use the block containing the address
  /// `place`. The next user of the memory then need not wait for this later work, even if it was issued before the
  /// block is freed. Does nothing if no block contains `place` or `queue` has not used the block.
  void end_use(const void* place, const std::shared_ptr<Queue>& queue);

  /// Makes the CardAllocator allocate each large parameter and gradient as a whole block from now on, for libraries
  /// that register blocks.
  void make_whole() { make_whole_ = true; }
  bool makes_whole() const { return make_whole_; }
  struct Extent {
    void* begin;
    int64_t bytes;
  };
  /// Returns the extent of the block that contains the address `place` if this block is whole; nullopt otherwise.
  std::optional<Extent> whole(const void* place);
  /// Keeps the object `companion` alive until the block that begins at `begin` is removed.
  void accompany(void* begin, std::shared_ptr<const void> companion);

  /// Records `queue` as a user of every block that is added during the lifetime of this object. Examples are the
  /// temporary blocks of a kernel's launch. If Launch objects are nested, the innermost applies.
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
    std::shared_ptr<const DeviceMark> end{};  // end of the use; null: the queue's end when the block is freed
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
  static User* find_user(Block& block, const std::shared_ptr<Queue>& queue);
  void touch_locked(Block& block, const std::shared_ptr<Queue>& queue);

  std::mutex mutex_;
  ByBegin blocks_;
  std::shared_ptr<Queue> launching_;
  std::atomic<bool> make_whole_ = false;
};

}  // namespace hexad::device::cuda
