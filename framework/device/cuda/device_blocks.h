// Tracks which queues have work on which blocks of memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "framework/device/cuda/queue.h"

namespace hexad::device::cuda {

/// Points in queues that must have been passed before the next user touches the memory.
using Marks = std::vector<std::shared_ptr<const DeviceMark>>;

/// Freed memory is used again in the order of issue: the host does not wait, but the first work of each queue on a
/// block waits, in its queue, for the work of other queues on the block's memory before. For that everybody who
/// launches says what the launch touches. Thread-safe.
class Blocks {
 public:
  /// A new block, which is free of its former users once they have passed `former`. `whole`: it is one piece of the
  /// card's memory (whole_blocks.h).
  void add(void* begin, int64_t bytes, Marks former, bool whole = false);
  /// Ends it: where its users are by now, or those before it when it had none. The host waits for them where the block
  /// had companions.
  Marks remove(void* begin);
  /// Work on the block around `place` is about to be launched in `queue`. Elsewhere than in a block: nothing.
  void touch(const void* place, const std::shared_ptr<Queue>& queue);

  /// Makes large long-lived blocks whole from now on, because a library registers them.
  void make_whole() { make_whole_ = true; }
  bool makes_whole() const { return make_whole_; }
  struct Extent {
    void* begin;
    int64_t bytes;
  };
  /// The block around `place`, if it is a whole one.
  std::optional<Extent> whole(const void* place);
  /// Lives as long as the block that begins there.
  void accompany(void* begin, std::shared_ptr<const void> companion);

  /// Marks, during its lifetime, new blocks as touched by `queue`: blocks that a kernel's launch needs for itself. One
  /// at a time.
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
    bool whole = false;
    std::vector<std::shared_ptr<Queue>> users{};
    std::vector<std::shared_ptr<const void>> companions{};
  };
  using ByBegin = std::map<uintptr_t, Block>;
  ByBegin::iterator around(const void* place);
  void touch_locked(Block& block, const std::shared_ptr<Queue>& queue);

  std::mutex mutex_;
  ByBegin blocks_;
  std::shared_ptr<Queue> launching_;
  std::atomic<bool> make_whole_ = false;
};

}  // namespace hexad::device::cuda
