// Collectives of a group of ranks. Every collective is also valid in a group of one rank.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/device/stream.h"
#include "framework/tensor/tensor.h"
#include "parallel/comm/message_routes.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/traffic.h"
#include "parallel/comm/uses.h"
#include "parallel/comm/window_memory.h"

namespace hexad::comm {

using base::ExitCode;
using device::Device;
using device::Stream;

/// Collectives on contiguous tensors. A collective starts once `stream` has done the work appended so far, and returns
/// an Event. `stream` does not wait for the collective: call stream.wait(event) before using a result.
///
/// Memory: the caller may free its tensors immediately, but must not overwrite them until the event is done. Host
/// threads own the tensors that they read or write (Event::keep). An operation on a device owns no tensors. Instead,
/// the stream that next uses the freed memory waits until the operation is done, and thus for the other ranks.
///
/// Order: all ranks of a group must issue the same operations in the same order. Sends and receives are ordered only
/// relative to messages with the same sender and receiver.
///
/// State: a group is a handle. Its functions are const, because its ranks, class and name never change. The functions
/// may still connect the ranks and count operations.
///
/// Errors: each rank checks its own sizes. A mismatch between ranks is an error of the caller. Groups of threads always
/// detect a mismatch between collectives, or between a send and its receive. An EngineGroup detects every such mismatch
/// only with Guards::check_collectives. An NcclGroup compares no calls.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  TrafficClass traffic() const { return traffic_; }
  const std::string& name() const { return name_; }
  /// Returns the node of each rank. Nodes are numbered as in the Topology of the world.
  const std::vector<int>& node_of_rank() const { return node_of_rank_; }
  /// True if the ranks are on several nodes, so that they communicate over a network.
  bool crosses_nodes() const;
  /// True if the two ranks of a message `op`, or the ranks of the group for any other `op`, are on several nodes.
  bool crosses_nodes(const Operation& op) const;

  /// Reduces `x` over the ranks in place. Sums of bf16 are accumulated in f32. Floating-point values are summed in the
  /// order of the ranks. The result is bitwise identical on all ranks. The result is NaN if any value is NaN, even for
  /// max and min. Groups over NCCL guarantee less (nccl/nccl_group.h).
  Event all_reduce(const Tensor& x, Reduce op, Stream& stream, Where where = Where::current()) const;
  /// Sums in[size() * n] over the ranks, and writes this rank's part of the sums to out[n]. `out` may be this rank's
  /// part of `in`.
  Event reduce_scatter(const Tensor& out, const Tensor& in, Stream& stream, Where where = Where::current()) const;
  /// Writes in[n] of all ranks, in the order of the ranks, to out[size() * n]. `in` may be this rank's part of `out`.
  Event all_gather(const Tensor& out, const Tensor& in, Stream& stream, Where where = Where::current()) const;
  /// Sends splits.send[r] rows of `in` [sum of send, ...] to each rank r, in the order of the ranks. Writes the rows
  /// received to `out` [sum of receive, ...] in the order of the ranks.
  Event all_to_all(const Tensor& out, const Tensor& in, const Splits& splits, Stream& stream,
                   Where where = Where::current()) const;
  Event broadcast(const Tensor& x, int root, Stream& stream, Where where = Where::current()) const;
  Event send(const Tensor& x, int to, Stream& stream, Where where = Where::current()) const;
  Event receive(const Tensor& x, int from, Stream& stream, Where where = Where::current()) const;
  Event barrier(Stream& stream, Where where = Where::current()) const;

  /// Issues an operation that is given as data.
  Event issue(Operation op, Stream& stream) const;

  // The next five functions exchange host values, for control traffic. They block the caller.
  std::vector<int64_t> all_gather_values(std::span<const int64_t> mine, Device device,
                                         Where where = Where::current()) const;
  /// Returns the values of all ranks, in the order of the ranks, on rank 0; an empty list on all other ranks. All ranks
  /// must pass the same number of values. The values are sent along a tree in O(log(size())) rounds.
  std::vector<int64_t> gather_values(std::span<const int64_t> mine, Device device,
                                     Where where = Where::current()) const;
  double all_reduce_value(double value, Reduce op, Device device, Where where = Where::current()) const;
  /// True on all ranks if `flag` is true on any rank.
  bool any(bool flag, Device device, Where where = Where::current()) const {
    return all_reduce_value(flag ? 1 : 0, Reduce::max, device, where) > 0;
  }
  /// True on all ranks if all ranks pass the same values. All ranks must pass the same number of values.
  bool same_on_all(std::span<const int64_t> mine, Device device, Where where = Where::current()) const;

  /// Splits the group. The ranks with the same `color` form a new group, ordered by `key` and then by rank in this
  /// group. Collective and blocking. This group must outlive the new group.
  virtual std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const = 0;
  /// Makes a group of `members`, which are ranks of this group and must include this rank. The order of the list is the
  /// order of the new group, and must be the same on all members. Collective over this group and blocking. This group
  /// must outlive the new group.
  virtual std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& members, TrafficClass traffic,
                                                 std::string name) const;
  /// Makes a second group of the same ranks and class. An operation of the new group has priority over operations of
  /// this group, even over operations that were called earlier. The new group has no priority in kinds of groups
  /// without priorities, or if Priorities::by_need is false. Collective and blocking. This group must outlive the new
  /// group.
  virtual std::unique_ptr<ProcessGroup> urgent(std::string name) const {
    return split(0, rank(), traffic_, std::move(name));
  }
  /// Makes a second group of the same ranks and class. On devices, the two groups may share connections. The operations
  /// of both groups then run in the order of the calls. All ranks must make these calls in the same order. Collective
  /// and blocking. This group must outlive the new group.
  virtual std::unique_ptr<ProcessGroup> duplicate(std::string name) const {
    return split(0, rank(), traffic_, std::move(name));
  }
  /// Connects the ranks for later operations of the kinds `uses` on tensors of `device`. Also allocates the memory that
  /// the connections need on the device. Without this call, the first operation of each kind connects the ranks.
  /// Use::messages connects all pairs of ranks, which needs much memory in a large group. Collective. Throws
  /// Error(resource) if the device has too little memory. Does nothing in groups whose device tensors need no
  /// connections.
  virtual void connect(Uses uses, Device device) const = 0;
  /// Like connect(Use::messages, device), but connects only these routes. `routes` are the routes of all ranks and must
  /// be the same on all ranks. Later calls add routes. Collective if any route is new. A message on any other route
  /// then throws std::logic_error in groups whose device tensors need connections.
  virtual void connect_routes(std::span<const Route> routes, Device device) const = 0;

  /// Returns memory that the devices of all ranks access; null if groups of this kind have no such memory. This group
  /// must outlive the memory.
  virtual std::unique_ptr<WindowMemory> window_memory() const = 0;
  /// True if the ranks are threads of this process, so that a rank can access the memory of the other ranks.
  virtual bool in_one_process() const = 0;
  /// True if operations on device tensors run on the devices, so that no host thread waits for them, as with NCCL.
  virtual bool runs_on_devices() const { return false; }

  /// Ends all processes of the job, including this one. May be called on any thread. Print the reason before the call.
  [[noreturn]] void abort_job(ExitCode code) const;

  /// Returns statistics of class `traffic` since the previous call, over all groups of this rank's world.
  TrafficStats take(TrafficClass traffic) const { return meter_->take(traffic); }
  /// Returns the meter that all groups of this world share.
  const std::shared_ptr<TrafficMeter>& meter() const { return meter_; }

 protected:
  ProcessGroup(TrafficClass traffic, std::string name, std::shared_ptr<TrafficMeter> meter,
               std::vector<int> node_of_rank)
      : traffic_(traffic), name_(std::move(name)), meter_(std::move(meter)), node_of_rank_(std::move(node_of_rank)) {}
  /// Starts an operation that has already been checked.
  virtual Event start(Operation op, Stream& stream) const = 0;
  /// Ends the other processes of the job, if any.
  virtual void abort_other_ranks(ExitCode code) const = 0;
  /// True if start() accepts device tensors. In other groups, device tensors are copied through host memory.
  virtual bool takes_device_tensors() const = 0;

  /// Members of a new group, in the order that split() defines, and the largest `proposal` of all ranks.
  struct Members {
    std::vector<int> ranks;
    int index;  // index of this rank among the members
    int64_t largest;
  };
  Members agree(int color, int key, int64_t proposal) const;
  /// Returns `members` and the largest `proposal` of all ranks. Unlike agree(), does not gather a list of all ranks.
  Members agree_on(const std::vector<int>& members, int64_t proposal) const;

 private:
  TrafficClass traffic_;
  std::string name_;
  std::shared_ptr<TrafficMeter> meter_;
  std::vector<int> node_of_rank_;
};

}  // namespace hexad::comm
