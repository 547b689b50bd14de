// The collectives of a group of ranks. A group of one is valid everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/device/stream.h"
#include "framework/tensor/tensor.h"

namespace hexad::comm {

using namespace tensor;
using device::Event;

/// What a group's traffic is for: the key of priorities and of the accounts in metrics.jsonl.
enum class TrafficClass : uint8_t { control, tp, ep, pp, cp, dp };
inline constexpr int traffic_class_count = 6;
std::string_view name_of(TrafficClass traffic);

enum class Reduce : uint8_t { sum, max, min };

/// Rows that go to, and come from, each rank of the group, in rank order (rows of dimension 0).
struct Splits {
  std::vector<int64_t> send, receive;
};

/// Bytes and seconds of one traffic class since the last reset. `exposed` is the time in which a thread of this rank
/// was blocked waiting for the class.
struct TrafficStats {
  int64_t bytes = 0;
  double seconds = 0, exposed_seconds = 0;
};

/// Collectives on contiguous tensors. Each starts when the work so far on `stream` is done and returns an Event; it does
/// not hold up `stream` itself (call stream.wait(event) before using a result). The event owns the tensors. All ranks of
/// a group issue the same operations in the same order. Sizes are checked locally; a mismatch between ranks is an error
/// of the caller.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  TrafficClass traffic() const { return traffic_; }
  const std::string& name() const { return name_; }

  /// In place. Sums of bf16 are accumulated in f32; the order of summation is fixed for a group.
  virtual Event all_reduce(const Tensor& x, Reduce op, Stream& stream) const = 0;
  /// out[n] = piece rank() of the sum of in[size() n] over the ranks.
  virtual Event reduce_scatter(const Tensor& out, const Tensor& in, Stream& stream) const = 0;
  /// out[size() n] = the ranks' in[n], in rank order.
  virtual Event all_gather(const Tensor& out, const Tensor& in, Stream& stream) const = 0;
  /// Rows of `in` [sum of send, ...] go to the ranks by splits.send; `out` [sum of receive, ...] is filled in rank order.
  virtual Event all_to_all(const Tensor& out, const Tensor& in, const Splits& splits, Stream& stream) const = 0;
  virtual Event broadcast(const Tensor& x, int root, Stream& stream) const = 0;
  virtual Event send(const Tensor& x, int to, Stream& stream) const = 0;
  virtual Event receive(const Tensor& x, int from, Stream& stream) const = 0;
  virtual Event barrier(Stream& stream) const = 0;

  // Small host-side exchanges (control): blocking.
  std::vector<int64_t> all_gather_values(std::span<const int64_t> mine, Device device) const;
  double all_reduce_value(double value, Reduce op, Device device) const;
  /// True when `flag` is on any rank.
  bool any(bool flag, Device device) const { return all_reduce_value(flag ? 1 : 0, Reduce::max, device) > 0; }

 protected:
  ProcessGroup(TrafficClass traffic, std::string name) : traffic_(traffic), name_(std::move(name)) {}

 private:
  TrafficClass traffic_;
  std::string name_;
};

}  // namespace hexad::comm
