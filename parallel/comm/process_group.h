// The collectives of a group of ranks. A group of one is valid everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/device/stream.h"
#include "framework/tensor/tensor.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/routes.h"
#include "parallel/comm/traffic.h"
#include "parallel/comm/uses.h"

namespace hexad::comm {

using base::ExitCode;
using device::Device;
using device::Stream;

/// Collectives on contiguous tensors. Each starts once the work so far on `stream` is done and returns an Event.
/// `stream` itself does not wait: call stream.wait(event) before using a result. The caller may free its tensors at
/// once, but nothing may overwrite them until the event is complete. Host threads own the tensors that they read or
/// write (Event::keep). A device's operation owns none: the next user of freed memory waits in its stream until the
/// operation is done, and thereby waits for the other ranks. All ranks of a group issue the same operations in the same
/// order. Sends and receives are ordered only against those of the same pair and direction. Each rank checks its own
/// sizes. A mismatch between ranks is an error of the caller. Groups of threads always detect it, groups of processes
/// only with Guards::check_collectives.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  TrafficClass traffic() const { return traffic_; }
  const std::string& name() const { return name_; }
  /// Returns the node of each rank, numbered as in the world's Topology.
  const std::vector<int>& node_of_rank() const { return node_of_rank_; }
  /// True if the ranks are on several nodes, so that their traffic uses a network.
  bool crosses_nodes() const;
  /// True if the bytes that this rank sends in `op` go to other nodes.
  bool crosses_nodes(const Operation& op) const;

  /// Reduces `x` in place. Sums of bf16 are accumulated in f32. The order of summation is that of the ranks, so the
  /// result is bitwise identical on all ranks. A NaN of any rank is kept, also in max and min.
  Event all_reduce(const Tensor& x, Reduce op, Stream& stream, Where where = Where::current()) const;
  /// Sums in[size() n] over the ranks and writes piece rank() of the sum to out[n]. `out` may be that piece of `in`.
  Event reduce_scatter(const Tensor& out, const Tensor& in, Stream& stream, Where where = Where::current()) const;
  /// Concatenates the ranks' in[n] in rank order to out[size() n]. `in` may be this rank's piece of `out`.
  Event all_gather(const Tensor& out, const Tensor& in, Stream& stream, Where where = Where::current()) const;
  /// Sends splits.send[r] rows of `in` [sum of send, ...] to each rank r. Fills `out` [sum of receive, ...] in rank
  /// order.
  Event all_to_all(const Tensor& out, const Tensor& in, const Splits& splits, Stream& stream,
                   Where where = Where::current()) const;
  Event broadcast(const Tensor& x, int root, Stream& stream, Where where = Where::current()) const;
  Event send(const Tensor& x, int to, Stream& stream, Where where = Where::current()) const;
  Event receive(const Tensor& x, int from, Stream& stream, Where where = Where::current()) const;
  Event barrier(Stream& stream, Where where = Where::current()) const;

  /// Issues any of the operations above, given as data.
  Event issue(Operation op, Stream& stream) const;

  // Small blocking exchanges on the host (control).
  std::vector<int64_t> all_gather_values(std::span<const int64_t> mine, Device device,
                                         Where where = Where::current()) const;
  double all_reduce_value(double value, Reduce op, Device device, Where where = Where::current()) const;
  /// True if `flag` is true on any rank.
  bool any(bool flag, Device device, Where where = Where::current()) const {
    return all_reduce_value(flag ? 1 : 0, Reduce::max, device, where) > 0;
  }

  /// Splits the group. Ranks that give the same `color` form a group, ordered by `key`, then by rank in this group.
  /// Collective and blocking. This group outlives the new one.
  virtual std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const = 0;
  /// Makes a group of `members`, which are ranks of this group and include this rank. Their order in the list is their
  /// order in the new group. All members give the same list. Collective over this group and blocking. This group
  /// outlives the new one.
  virtual std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& members, TrafficClass traffic,
                                                 std::string name) const;
  /// Makes a second group of the same ranks and class. Its operations go before those of this group, even if they are
  /// called later. In groups without priorities, neither group goes first. Collective and blocking. This group outlives
  /// the new one.
  virtual std::unique_ptr<ProcessGroup> urgent(std::string name) const {
    return split(0, rank(), traffic_, std::move(name));
  }
  /// Makes a second group of the same ranks and class. On devices the two groups may share connections. Their
  /// operations then run in the order of the calls to both groups, and all ranks must make these calls in the same
  /// order. Collective and blocking. This group outlives the new one.
  virtual std::unique_ptr<ProcessGroup> twin(std::string name) const {
    return split(0, rank(), traffic_, std::move(name));
  }
  /// Connects the ranks for later operations of these kinds on tensors of `device`, and takes the memory that the
  /// connections need there. Otherwise the first operation of each kind does so. Collective. Throws Error(resource) if
  /// the device has too little memory. Does nothing in groups whose device tensors need no connections.
  /// Use::messages stands for the routes between all pairs of ranks, which take much memory in a large group.
  virtual void connect(Uses, Device) const {}
  /// Like connect(Use::messages, device), but connects ranks on these routes only. `routes` has the routes of all ranks
  /// and is the same on all ranks. Later calls add routes. Collective if a route is new. Afterwards a message on
  /// another route throws std::logic_error in groups whose device tensors need connections.
  virtual void connect_routes(std::span<const Route>, Device) const {}

  /// Ends this process and the whole job. Callable from any thread. Print the reason before the call.
  [[noreturn]] void abort_job(ExitCode code) const;

  /// Returns the bytes this rank sent and the time it waited in `traffic` since the last call, over all groups of its
  /// world.
  TrafficStats take(TrafficClass traffic) const { return meter_->take(traffic); }
  /// Returns the meter of all groups of this world.
  const std::shared_ptr<TrafficMeter>& meter() const { return meter_; }

 protected:
  ProcessGroup(TrafficClass traffic, std::string name, std::shared_ptr<TrafficMeter> meter,
               std::vector<int> node_of_rank)
      : traffic_(traffic), name_(std::move(name)), meter_(std::move(meter)), node_of_rank_(std::move(node_of_rank)) {}
  /// Starts a checked operation.
  virtual Event start(Operation op, Stream& stream) const = 0;
  /// Ends the other processes of the job, if there are any.
  virtual void abort_other_ranks(ExitCode) const {}
  /// True if start() takes device tensors. In other groups device tensors pass through host memory.
  virtual bool takes_device_tensors() const { return false; }

  /// Ranks of this group that form one new group, in the order of split(), and the largest `proposal` of all ranks.
  struct Members {
    std::vector<int> ranks;
    int index;  // index of this rank
    int64_t largest;
  };
  Members agree(int color, int key, int64_t proposal) const;

 private:
  TrafficClass traffic_;
  std::string name_;
  std::shared_ptr<TrafficMeter> meter_;
  std::vector<int> node_of_rank_;
};

}  // namespace hexad::comm
