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
#include "parallel/comm/traffic.h"

namespace hexad::comm {

using base::ExitCode;
using device::Device;
using device::Stream;

/// Collectives on contiguous tensors. Each starts when the work so far on `stream` is done and returns an Event; it
/// does not hold up `stream` itself (call stream.wait(event) before using a result). The operation owns its tensors
/// until then. All ranks of a group issue the same operations in the same order; sends and receives are ordered only
/// against those of the same pair and direction. Sizes are checked locally; a mismatch between ranks is an error of the
/// caller, which groups of threads always find and groups of processes when asked to (Guards::check_collectives).
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  TrafficClass traffic() const { return traffic_; }
  const std::string& name() const { return name_; }
  /// The node of each rank, numbered as in the world's Topology.
  const std::vector<int>& node_of_rank() const { return node_of_rank_; }
  /// True if the ranks are on several nodes, so that what they exchange passes a network.
  bool crosses_nodes() const;
  /// True if the bytes of `op`, called by this rank, go between nodes.
  bool crosses_nodes(const Operation& op) const;

  /// In place. Sums of bf16 are accumulated in f32; the order of summation is that of ranks, so the result is the same
  /// on all ranks, bit for bit. A NaN of any rank stays, also in max and min.
  Event all_reduce(const Tensor& x, Reduce op, Stream& stream, Where where = Where::current()) const;
  /// out[n] = piece rank() of the sum of in[size() n] over the ranks. `out` may be that piece of `in`.
  Event reduce_scatter(const Tensor& out, const Tensor& in, Stream& stream, Where where = Where::current()) const;
  /// out[size() n] = the ranks' in[n], in rank order. `in` may be this rank's piece of `out`.
  Event all_gather(const Tensor& out, const Tensor& in, Stream& stream, Where where = Where::current()) const;
  /// Rows of `in` [sum of send, ...] go to the ranks by splits.send; `out` [sum of receive, ...] is filled in rank
  /// order.
  Event all_to_all(const Tensor& out, const Tensor& in, const Splits& splits, Stream& stream,
                   Where where = Where::current()) const;
  Event broadcast(const Tensor& x, int root, Stream& stream, Where where = Where::current()) const;
  Event send(const Tensor& x, int to, Stream& stream, Where where = Where::current()) const;
  Event receive(const Tensor& x, int from, Stream& stream, Where where = Where::current()) const;
  Event barrier(Stream& stream, Where where = Where::current()) const;

  /// Any of these, as data.
  Event issue(Operation op, Stream& stream) const;

  // Small host-side exchanges (control): blocking.
  std::vector<int64_t> all_gather_values(std::span<const int64_t> mine, Device device,
                                         Where where = Where::current()) const;
  double all_reduce_value(double value, Reduce op, Device device, Where where = Where::current()) const;
  /// True when `flag` is on any rank.
  bool any(bool flag, Device device, Where where = Where::current()) const {
    return all_reduce_value(flag ? 1 : 0, Reduce::max, device, where) > 0;
  }

  /// A collective call: ranks that give the same `color` make a group, ranked by `key`, then by rank in this group.
  /// Blocking. This group outlives the new one.
  virtual std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const = 0;
  /// The group of these ranks of this one, this rank among them, in the order of the list, which all of them give. A
  /// collective call over this group, blocking; this group outlives the new one.
  virtual std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& members, TrafficClass traffic,
                                                 std::string name) const;
  /// A second group of the same ranks and class, whose operations go before those of this group even when they are
  /// called later. A collective call, blocking; this group outlives the new one. Where groups have no
  /// priorities neither goes first.
  virtual std::unique_ptr<ProcessGroup> urgent(std::string name) const {
    return split(0, rank(), traffic_, std::move(name));
  }

  /// Ends this process and the whole job, from any thread. Print the reason first.
  [[noreturn]] void abort_job(ExitCode code) const;

  /// Returns what this rank sent and waited for in `traffic` since the last call, over all groups of its world.
  TrafficStats take(TrafficClass traffic) const { return meter_->take(traffic); }
  /// Meter of all groups of its world.
  const std::shared_ptr<TrafficMeter>& meter() const { return meter_; }

 protected:
  ProcessGroup(TrafficClass traffic, std::string name, std::shared_ptr<TrafficMeter> meter,
               std::vector<int> node_of_rank)
      : traffic_(traffic), name_(std::move(name)), meter_(std::move(meter)), node_of_rank_(std::move(node_of_rank)) {}
  /// Starts a checked operation.
  virtual Event start(Operation op, Stream& stream) const = 0;
  /// Ends the job's other processes, if there are any.
  virtual void abort_other_ranks(ExitCode) const {}
  /// True if start() takes tensors of a device; in other groups these pass through host memory.
  virtual bool takes_device_tensors() const { return false; }

  /// Ranks of this group that form one new group, as split() orders them, and the largest `proposal` of all ranks.
  struct Members {
    std::vector<int> ranks;
    int index;  // of this rank
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
