// Memory of each rank of a group that the other ranks of the group read and write directly.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "parallel/comm/process_group.h"
#include "parallel/comm/window_memory.h"

namespace hexad::comm {

/// Windows of the ranks of a group. A window is a block of memory on the device of its rank. Kernels of all ranks
/// access it, so that rows need no messages. The windows of all ranks have the same size.
///
/// An exchange on a stream consists of five steps: open(), kernels that write to windows, wait_for_ranks(), kernels
/// that read windows, and close(). Between wait_for_ranks() and close(), windows contain what all ranks wrote between
/// open() and wait_for_ranks(). Exchanges must not overlap. All ranks must begin the same exchanges in the same order,
/// also relative to other operations of the group.
///
/// Windows grow in two cases only: hold() allocates them at first, and grow() enlarges them between training steps. A
/// window is then a quarter larger than requested, so that it rarely overflows later. All ranks keep their windows as
/// they are, and do not try again, if a device lacks memory.
class Windows {
 public:
  /// Makes windows without memory. `group` must outlive the windows.
  explicit Windows(const ProcessGroup& group) : group_(group) {}
  /// Waits until all ranks have ended the last exchange. Does not wait while an exception propagates, but leaves the
  /// window allocated until the end of the process.
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  const ProcessGroup& group() const { return group_; }
  /// Returns the reason why ranks with devices like `device` cannot have windows; empty if they can. Windows require
  /// that all ranks are on one node. In addition, the group must have window_memory(), or the ranks must be threads of
  /// this process whose devices share memory. The first call is collective.
  const std::string& refusal(Device device);

  /// Returns true if there are windows of at least `bytes` bytes. Otherwise, the caller must exchange rows without
  /// windows. The next call of grow() then tries to enlarge the windows to at least `bytes`. The first call with bytes
  /// > 0 allocates windows on `device`. All ranks must make these calls with the same numbers and in the same order.
  /// Always returns false on a meta device, where windows are only counted.
  bool hold(int64_t bytes, Device device);
  /// Enlarges the windows if they were too small in a call of hold() since the previous call of grow(). Collective.
  /// Waits for all exchanges and allocates memory, and should therefore be called between training steps.
  void grow();
  /// Returns the number of bytes for which a device of the group lacked memory. Returns nullopt if no device lacked
  /// memory, and on all later calls. The result is the same on all ranks.
  std::optional<int64_t> take_refused_bytes() { return std::exchange(unreported_, std::nullopt); }
  /// True on the first call after windows were allocated or enlarged: no exchange has used these windows yet. The
  /// result is the same on all ranks.
  bool take_fresh() { return std::exchange(fresh_, false); }
  /// Returns the number of bytes of each window.
  int64_t bytes() const { return own_.defined() ? own_.bytes() : 0; }

  /// Makes `stream` wait until the streams of all ranks have reached close() of the previous exchange.
  void open(Stream& stream) const { stream.wait(closed_); }
  /// Makes `stream` wait until the streams of all ranks have reached this call.
  void wait_for_ranks(Stream& stream) const { stream.wait(barrier(stream)); }
  /// Ends the exchange. Returns an event that is done once the streams of all ranks have reached this call.
  const Event& close(Stream& stream) { return closed_ = barrier(stream); }

  /// Returns this rank's window, u8 [bytes()].
  const Tensor& own() const { return own_; }
  /// Returns the distances in bytes from this rank's window to the window of each rank, i64 [ranks].
  const Tensor& distances() const { return distances_; }

 private:
  void allocate(int64_t bytes, Device device);
  std::optional<WindowMemory::Block> allocate_in_process(int64_t bytes, Device device) const;
  Event barrier(Stream& stream) const;

  const ProcessGroup& group_;
  const int exceptions_ = std::uncaught_exceptions();  // number of exceptions in flight at construction
  std::optional<std::string> refusal_;
  int64_t wanted_ = 0;  // largest number of bytes that was passed to hold()
  bool fresh_ = false;
  bool refused_ = false;                  // true if a device of the group lacked memory for windows
  std::optional<int64_t> unreported_;     // see take_refused_bytes()
  std::unique_ptr<WindowMemory> memory_;  // null: the devices access each other's memory without a library
  Tensor own_, distances_;
  Tensor token_;  // i32 [1]: operand of barriers; defined only if memory_ is set
  Event closed_;  // end of the latest exchange on all ranks
};

}  // namespace hexad::comm
