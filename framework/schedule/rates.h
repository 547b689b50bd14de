// Measured speed of a machine: plain data that prices tasks. `hexad profile` measures it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

/// Seconds over size (bytes or FLOPs). Between measured points: linear. Beyond the last: along the last segment, never
/// falling (through the origin when there is one point). Below the first: as long as the first, its latency. Size 0
/// takes no time.
struct TimeCurve {
  struct Point {
    double size, seconds;
  };
  std::vector<Point> points{};  // ascending sizes

  /// `latency` seconds and then `per_second` bytes or FLOPs a second.
  static TimeCurve linear(double latency, double per_second);
  double seconds(double size) const;
};

/// Lanes that run at one time.
class LaneSet {
 public:
  LaneSet() = default;
  LaneSet(std::initializer_list<Lane> lanes) {
    for (Lane lane : lanes) add(lane);
  }
  void add(Lane lane) { bits_ |= bit(lane); }
  bool contains(Lane lane) const { return bits_ & bit(lane); }
  LaneSet without(Lane lane) const;
  bool empty() const { return bits_ == 0; }
  /// 0 to 15: a key.
  size_t index() const { return bits_; }
  std::string to_string() const;  // "inter, copy"
  bool operator==(const LaneSet&) const = default;

 private:
  static unsigned bit(Lane lane) { return 1U << static_cast<unsigned>(lane); }
  unsigned bits_ = 0;
};

struct Rates {
  ByGemmPass<TimeCurve> compute{};  // of one matrix product, over its FLOPs
  TimeCurve copy{};                 // over bytes

  /// A collective, or a send, of one group of ranks, alone on the machine.
  struct Link {
    TaskKind kind;
    std::string group;  // "ep", "tp", ...: Cost::group
    int group_size;
    bool crosses_nodes;
    TimeCurve curve;  // over the bytes that a rank sends, or receives if these are more
  };
  std::vector<Link> links{};

  /// Prices the links that are not listed, whatever their kind, group and size. Whoever sets it tells the user.
  struct OtherLinks {
    TimeCurve within_node, between_nodes;
  };
  std::optional<OtherLinks> other_links{};

  /// MPMoE's alpha(y, x), Fig. 3: the speed of lane y while the lanes x run too, as a share of its speed alone.
  struct Slowdown {
    Lane lane;       // y
    LaneSet beside;  // x: one lane, or several at once
    double alpha;    // above 0, at most 1
  };
  std::vector<Slowdown> slowdowns{};

  /// The measured value of this very set of lanes, if there is one. Otherwise the delays 1/alpha - 1 of its single
  /// lanes add up (none for a lane that was not measured). That is exact when all lanes share one resource in equal
  /// parts. It lies between the smallest single alpha (each lane uses a resource of its own) and the product of all of
  /// them (each lane slows what the others leave).
  double alpha(Lane lane, LaneSet beside) const;

  /// The listed link, else nothing.
  const Link* find(TaskKind kind, const std::string& group, int group_size, bool crosses_nodes) const;
  /// Seconds of a task that has the machine for itself: the sum for its matrix products (which share its FLOPs evenly),
  /// its copied bytes and its wire bytes. Throws base::Error(usage) naming what was not measured, and what was.
  double seconds(const TaskSpec& task) const;

  /// Throws base::Error(usage) when a curve has sizes that do not ascend or times that are no times, or an alpha is not
  /// in (0, 1].
  void check() const;

  /// A plain machine, for when nothing was measured: one core of a server processor, ranks on one node over shared
  /// memory, nodes over gigabit Ethernet. Good for comparing schedules, not for predicting seconds.
  static Rates defaults();
};

/// Links that tasks of `graph` use and `rates` does not list, each once: "all_to_all of ep, 8 ranks, between nodes".
std::vector<std::string> unmeasured_links(const TaskGraph& graph, const Rates& rates);

}  // namespace hexad::schedule
