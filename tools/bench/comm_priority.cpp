// Measures the time of a communication operation alone, and after operations of lower priority have started. Measures
// the second case with MoNTA's priorities and in order of arrival. tools/bench/papers/priority.sh makes its tables from
// the output. No rank computes.
//
//   mpirun -np 4 comm_priority [--bytes 4194304] [--others 16777216] [--head-start 0.05] [--rounds 5]
//                              [--round-bytes N] [--window-bytes N] [--low-window-bytes N]
//
// Runs on 2 or 4 ranks. With two ranks, the other rank is the peer of all operations. With four ranks, the peers of
// a rank are:
//   rank ^ 1 for the measured operation, except weights
//   rank ^ 2 for data-parallel gradients, and for measured weights
//   rank ^ 3 for other pipeline messages, and for keys and values that compete with measured pipeline messages
// Therefore, operations with different peers share only a rank's link.
//
// --bytes: bytes that a rank sends in the measured operation. --others: bytes that a rank sends in each of the other
// operations. The other operations begin --head-start seconds earlier. No thread waits for an operation, so only the
// priorities determine the order.
//
// Prints one line per measurement, with fields separated by tabs: round, conflict, order (alone, priority, fifo),
// seconds of the operation, seconds until all operations are done. Both times are from the slowest rank.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "framework/device/context.h"
#include "parallel/comm/world.h"

namespace hexad::comm {

using namespace base;
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int64_t bytes = 4 << 20, others = 16 << 20;
  double head_start = 0.05;
  int rounds = 5;
  Limits limits;
};

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Operations of one class with one peer. The peer runs the same operations.
class PeerTraffic {
 public:
  enum class Kind : uint8_t { exchange, gather, sum, messages };

  PeerTraffic(const ProcessGroup& world, int distance, TrafficClass traffic, Kind kind, int64_t bytes, Device device,
              Urgency urgency = Urgency::ordinary)
      : kind_(kind), device_(device), count_(bytes / 4) {
    const int peer = world.rank() ^ (world.size() == 2 ? 1 : distance);
    group_ = world.split(std::min(world.rank(), peer), world.rank(), traffic, std::string(name_of(traffic)));
    if (urgency == Urgency::urgent) {
      ordinary_ = std::move(group_);
      group_ = ordinary_->urgent("urgent");
    }
    const auto tensor = [&](int64_t n) { return Tensor::zeros({n}, Dtype::f32, device_); };
    in_ = tensor(kind == Kind::exchange ? 2 * count_ : count_);
    out_ = kind == Kind::sum ? in_ : tensor(kind == Kind::messages ? count_ : 2 * count_);
  }

  void start() {
    const int other = 1 - group_->rank();
    events_.clear();
    switch (kind_) {
      case Kind::exchange:
        events_.push_back(group_->all_to_all(out_, in_, {{count_, count_}, {count_, count_}}, stream_));
        break;
      case Kind::gather:
        events_.push_back(group_->all_gather(out_, in_, stream_));
        break;
      case Kind::sum:
        events_.push_back(group_->all_reduce(in_, Reduce::sum, stream_));
        break;
      case Kind::messages:
        events_.push_back(group_->receive(out_, other, stream_));
        events_.push_back(group_->send(in_, other, stream_));
        break;
    }
  }
  // Polls, because waiting for an operation would give it priority over all classes.
  Clock::time_point end() const {
    for (const Event& e : events_)
      while (!e.done()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return Clock::now();
  }

 private:
  Kind kind_;
  Device device_;
  int64_t count_;
  std::unique_ptr<ProcessGroup> ordinary_, group_;
  Tensor in_, out_;
  device::InlineStream stream_;
  std::vector<Event> events_;
};

class Bench {
 public:
  Bench(const Options& o, World& world) : options_(o), world_(world) { world.set_limits(o.limits); }

  // Measures `urgent` alone, and after `others` have started: once with MoNTA's priorities, by which `others` have
  // lower priority, and once in order of arrival.
  void conflict(int round, std::string_view name, PeerTraffic& urgent, const std::vector<PeerTraffic*>& others) {
    const auto measure = [&](std::string_view order, const Priorities& priorities,
                             const std::vector<PeerTraffic*>& beside) {
      world_.prioritize(priorities);
      world_.group().barrier(device_.compute()).wait();
      const auto begin = Clock::now();
      for (PeerTraffic* t : beside) t->start();
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.head_start));
      const auto posted = Clock::now();
      urgent.start();
      const double took = seconds_between(posted, urgent.end());
      for (PeerTraffic* t : beside) t->end();
      const double all = seconds_between(begin, Clock::now());
      const auto slowest = [&](double s) { return world_.group().all_reduce_value(s, Reduce::max, device_); };
      const double worst = slowest(took), last = slowest(all);
      if (world_.rank() == 0) fmt::print("{}\t{}\t{}\t{:.6f}\t{:.6f}\n", round, name, order, worst, last);
      std::fflush(stdout);
    };
    // With equal priorities, the operation may fill window_bytes. With Priorities{}, its limit would be
    // low_window_bytes if this rank also uses a class of higher priority on the link.
    measure("alone", Priorities::by_arrival(), {});
    // Alternates the order of the two cases, so that each case comes first in every second round.
    for (bool priority : {round % 2 == 0, round % 2 != 0})
      measure(priority ? "priority" : "fifo", priority ? Priorities{} : Priorities::by_arrival(), others);
  }

  void run() {
    const ProcessGroup& world = world_.group();
    using Kind = PeerTraffic::Kind;
    const auto traffic = [&](int distance, TrafficClass c, Kind kind, int64_t bytes) {
      return PeerTraffic(world, distance, c, kind, bytes, device_);
    };
    const int64_t mine = options_.bytes, theirs = options_.others;
    PeerTraffic ep = traffic(1, TrafficClass::ep, Kind::exchange, mine),
                cp = traffic(1, TrafficClass::cp, Kind::gather, mine),
                pp = traffic(1, TrafficClass::pp, Kind::messages, mine),
                gradients = traffic(2, TrafficClass::dp, Kind::sum, theirs),
                messages = traffic(3, TrafficClass::pp, Kind::messages, theirs),
                keys = traffic(3, TrafficClass::cp, Kind::gather, theirs),
                weights = PeerTraffic(world, 2, TrafficClass::dp, Kind::gather, mine, device_, Urgency::urgent);
    // Activates all classes, as after a training step.
    for (PeerTraffic* t : {&ep, &cp, &pp, &gradients, &messages, &keys, &weights}) {
      t->start();
      t->end();
    }
    for (int round = 1; round <= options_.rounds; ++round) {
      conflict(round, "pp during cp", pp, {&keys});
      conflict(round, "ep during dp", ep, {&gradients});
      conflict(round, "cp during dp", cp, {&gradients});
      conflict(round, "pp during dp", pp, {&gradients});
      conflict(round, "ep during dp and pp", ep, {&gradients, &messages});
      conflict(round, "weights during gradients", weights, {&gradients});
    }
  }

 private:
  const Options& options_;
  World& world_;
  device::DeviceContext device_;
};

int run(int argc, char** argv) {
  Options o;
  CLI::App app("Times communication operations while operations of lower classes run");
  app.add_option("--bytes", o.bytes, "bytes that a rank sends in the measured operation")->check(CLI::PositiveNumber);
  app.add_option("--others", o.others, "bytes that a rank sends in each of the other operations")
      ->check(CLI::PositiveNumber);
  app.add_option("--head-start", o.head_start, "seconds by which the other operations start earlier")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--rounds", o.rounds, "number of repetitions")->check(CLI::PositiveNumber);
  app.add_option("--round-bytes", o.limits.round_bytes, "bytes of a piece of an operation")->check(CLI::PositiveNumber);
  app.add_option("--window-bytes", o.limits.window_bytes, "maximum bytes in flight in each direction")
      ->check(CLI::PositiveNumber);
  app.add_option("--low-window-bytes", o.limits.low_window_bytes,
                 "maximum bytes in flight in each direction, for each class of lower priority")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return with_world([&](World& world) {
    base::require(world.size() == 2 || world.size() == 4, "[comm_priority] ", world.size(), " ranks, expected 2 or 4");
    Bench(o, world).run();
    return 0;
  });
}

}  // namespace
}  // namespace hexad::comm

int main(int argc, char** argv) { return hexad::comm::run(argc, argv); }
