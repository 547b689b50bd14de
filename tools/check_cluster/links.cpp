#include "tools/check_cluster/measurements.h"

#include <algorithm>
#include <cmath>

#include "framework/base/clock.h"
#include "framework/base/median.h"
#include "tools/check_cluster/meetings.h"

namespace hexad::check_cluster {
namespace {

using base::Dtype;
using base::now;
using tensor::Tensor;

constexpr int repeats = 3, pings = 10;
constexpr double longest_repeated = 0.5;  // seconds; slower messages are not repeated
constexpr int64_t trial_bytes = 1 << 20, least_bytes = 256 << 10, max_bytes = 4 << 20;

/// Messages between this rank and one peer. Both ranks make the same calls in the same order.
class Pair {
 public:
  Pair(const comm::ProcessGroup& group, int peer, int64_t bytes, device::Device device)
      : group_(group),
        stream_(device.context().compute()),
        peer_(peer),
        small_sent_(buffer(8, device)),
        small_got_(buffer(8, device)),
        sent_(buffer(bytes, device)),
        got_(buffer(bytes, device)) {
    uint8_t* bytes_sent = sent_.data<uint8_t>();
    std::fill(bytes_sent, bytes_sent + bytes, mark_of(group.rank()));
  }

  /// Returns half the round-trip time of a message of eight bytes, the median of several messages.
  double latency() const {
    std::vector<double> times;
    for (int i = 0; i <= pings; ++i) {
      const double began = now();
      if (goes_first()) send(small_sent_);
      receive(small_got_);
      if (!goes_first()) send(small_sent_);
      if (i > 0) times.push_back((now() - began) / 2);  // the first exchange may open a connection
    }
    return base::lower_median(std::move(times));
  }

  /// Returns the seconds from the start of the large message until the peer's answer arrives. The result is the median
  /// of `times` messages, or the time of the first message if this message was slow. Both ranks send their messages,
  /// the rank with the lower number first.
  double round_trip(int times) const {
    if (!goes_first()) answer();
    const double median = timed(times);
    if (goes_first()) answer();
    return median;
  }

  /// True if the contents of the peer's last large message changed during the transfer.
  bool damaged() const {
    const uint8_t* bytes = got_.data<uint8_t>();
    return !std::all_of(bytes, bytes + got_.numel(), [&](uint8_t byte) { return byte == mark_of(peer_); });
  }

 private:
  double timed(int times) const {
    const double first = timed_once();  // may open a connection
    // A slow message is not repeated, so that one link cannot delay the check for minutes.
    const int more = first > longest_repeated ? 0 : times;
    *small_sent_.data<uint8_t>() = static_cast<uint8_t>(more);
    send(small_sent_);
    std::vector<double> measured;
    for (int i = 0; i < more; ++i) measured.push_back(timed_once());
    return measured.empty() ? first : base::lower_median(std::move(measured));
  }
  double timed_once() const {
    const double began = now();
    send(sent_), receive(small_got_);
    return now() - began;
  }
  // Answers the messages that the peer's timed() sends.
  void answer() const {
    receive(got_), send(small_sent_);
    receive(small_got_);
    const int more = *small_got_.data<uint8_t>();
    for (int i = 0; i < more; ++i) receive(got_), send(small_sent_);
  }
  static Tensor buffer(int64_t bytes, device::Device device) {
    return Tensor::zeros({bytes}, Dtype::u8, device, device::Category::communication);
  }
  static uint8_t mark_of(int rank) { return static_cast<uint8_t>(1 + rank % 251); }
  bool goes_first() const { return group_.rank() < peer_; }
  void send(const Tensor& x) const { group_.send(x, peer_, stream_).wait(); }
  void receive(const Tensor& x) const { group_.receive(x, peer_, stream_).wait(); }

  const comm::ProcessGroup& group_;
  device::Stream& stream_;
  int peer_;
  Tensor small_sent_, small_got_, sent_, got_;
};

/// Durations of a trial, in seconds: maxima over the ranks. All ranks have the same values.
struct Trial {
  double message = 0;  // one message of trial_bytes
  double fixed = 0;    // parts of a round that do not depend on the size of messages: a barrier and the short messages
};

// Measures the messages of a trial round between this rank and `peer`; no messages if `peer` is -1.
Trial try_round(const comm::ProcessGroup& group, int peer, device::Device device) {
  Trial trial;
  if (peer >= 0) {
    const Pair pair(group, peer, trial_bytes, device);
    trial.message = pair.round_trip(1);
    trial.fixed = 2 * (pings + 1) * pair.latency();
  }
  trial.message = std::max(1e-6, group.all_reduce_value(trial.message, comm::Reduce::max, device));
  const double began = now();
  group.barrier(device.context().compute()).wait();
  trial.fixed = group.all_reduce_value(trial.fixed + now() - began, comm::Reduce::max, device);
  return trial;
}

constexpr double messages_of_a_round = 2 * (repeats + 1);  // large messages, one after the other

// Returns the number of rounds with messages of least_bytes that take about `seconds`.
int64_t rounds_within(double seconds, const Trial& trial) {
  const double message = trial.message * static_cast<double>(least_bytes) / static_cast<double>(trial_bytes);
  const double rounds = seconds / (messages_of_a_round * message + trial.fixed);
  return static_cast<int64_t>(std::min(rounds, 1e9));
}

// Returns the message size for which `rounds` rounds take about `seconds`. Rounds the size down to a power of two from
// least_bytes to max_bytes.
int64_t message_bytes(size_t rounds, const Trial& trial, double seconds) {
  const double share = seconds / (static_cast<double>(rounds) * messages_of_a_round);
  const double wanted = std::log2(static_cast<double>(trial_bytes) * share / trial.message);
  const double legal = std::clamp(std::floor(wanted), std::log2(least_bytes), std::log2(max_bytes));
  return int64_t{1} << static_cast<int>(legal);
}

}  // namespace

void measure_links(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds) {
  const comm::NodeGrid grid(world.node_of_rank());
  const std::vector<int> tried = meetings_of(grid, world.rank(), least_rounds);
  if (tried.empty()) return;
  const auto group = world.split(0, world.rank(), comm::TrafficClass::pp, "links");
  // Tries the last round, because its pairs are ranks on different nodes if there are several nodes.
  const Trial trial = try_round(*group, tried.back(), device);
  const std::vector<int> meetings = meetings_of(grid, world.rank(), rounds_within(seconds, trial));
  const int64_t bytes = message_bytes(meetings.size(), trial, seconds);
  for (const int peer : meetings) {
    group->barrier(device.context().compute()).wait();
    if (peer < 0) continue;
    const Pair pair(*group, peer, bytes, device);
    LinkFigure link{.to = peer, .latency = pair.latency(), .seconds = 0, .bytes = bytes};
    const double round_trip = pair.round_trip(repeats);
    // Subtracts one latency, the time of the answer. The result is at least half the round trip, because a fluctuating
    // latency could make the difference implausibly small.
    link.seconds = std::max(round_trip - link.latency, round_trip / 2);
    report.links.push_back(link);
    if (pair.damaged()) report.damaged_from.push_back(peer);
  }
  group->barrier(device.context().compute()).wait();
}

}  // namespace hexad::check_cluster
