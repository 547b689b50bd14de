// Which queues have work on which blocks of memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "framework/device/cuda/queue.h"

namespace hexad::device::cuda {

/// Points in queues that must have been passed before somebody else uses the memory.
using Marks = std::vector<std::shared_ptr<const DeviceMark>>;

/// Freed memory is used again in the order of issue: the host does not wait, but the first work of each queue on a
/// block waits, in its queue, for the work of other queues on the block's memory before. For that everybody who
/// launches says what the launch touches. Thread-safe.
class Blocks {
 public:
  /// A new block, which is free of its former users once they have passed `former`.
  void add(void* begin, int64_t bytes, Marks former);
  /// Ends it: where its users are by now, or those before it when it had none.
  Marks remove(void* begin);
  /// Work on the block around `place` is about to be launched in `queue`. Elsewhere than in a block: nothing.
  void touch(const void* place, const std::shared_ptr<Queue>& queue);

  /// While it lives, new blocks are touched for `queue` when they are made: what a kernel's launch needs for itself.
  /// One at a time.
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
  struct Block {
    int64_t bytes;
    Marks former;
    std::vector<std::shared_ptr<Queue>> users;
  };
  void touch_locked(Block& block, const std::shared_ptr<Queue>& queue);

  std::mutex mutex_;
  std::map<uintptr_t, Block> blocks_;  // by begin
  std::shared_ptr<Queue> launching_;
};

}  // namespace hexad::device::cuda
