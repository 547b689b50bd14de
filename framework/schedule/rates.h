// Measured speed of a machine: plain data that prices tasks. `hexad profile` measures it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

/// Seconds over size (bytes or FLOPs). Linear between measured points. Beyond the last point it follows the last
/// segment and never falls; with one point, it follows the line through the origin. Below the first point it is the
/// time of the first point, the latency. Size 0 takes no time.
struct TimeCurve {
  struct Point {
    double size, seconds;
  };
  std::vector<Point> points{};  // ascending sizes

  /// Returns a curve of `latency` seconds plus `per_second` bytes or FLOPs a second.
  static TimeCurve linear(double latency, double per_second);
  double seconds(double size) const;
};

/// A set of lanes that run at the same time.
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
  /// Returns a key, 0 to 15.
  size_t index() const { return bits_; }
  std::string to_string() const;  // "inter, copy"
  bool operator==(const LaneSet&) const = default;

 private:
  static unsigned bit(Lane lane) { return 1U << static_cast<unsigned>(lane); }
  unsigned bits_ = 0;
};

struct Rates {
  ByGemmPass<TimeCurve> compute{};  // time of one matrix product, over its FLOPs
  TimeCurve copy{};                 // time of a copy, over its bytes

  /// Measured time of a collective or a send of one group of ranks, with no other load on the machine.
  struct Link {
    TaskKind kind;
    std::string group;  // "ep", "tp", ...: Cost::group
    int group_size;
    bool crosses_nodes;
    TimeCurve curve;  // over the bytes that a rank sends, or receives if these are more
  };
  std::vector<Link> links{};

  /// Curves for all links that are not listed, of any kind, group and size. Code that sets these curves must tell the
  /// user.
  struct OtherLinks {
    TimeCurve within_node, between_nodes;
  };
  std::optional<OtherLinks> other_links{};

  /// Slowdown alpha(y, x) of MPMoE, Fig. 3: the speed of lane y while the lanes x run too, relative to its speed
  /// without other lanes.
  struct Slowdown {
    Lane lane;       // y
    LaneSet beside;  // x: one or several lanes
    double alpha;    // above 0, at most 1
  };
  std::vector<Slowdown> slowdowns{};

  /// Returns the measured value of exactly this set of lanes, if there is one. Otherwise the delays 1/alpha - 1 of its
  /// single lanes add up (zero for a lane that was not measured). The resulting alpha is exact if all lanes share one
  /// resource in equal parts. It is between the smallest single alpha (each lane uses its own resource) and the product
  /// of all single alphas (each lane slows the remainder).
  double alpha(Lane lane, LaneSet beside) const;

  /// Returns the listed link, or null.
  const Link* find(TaskKind kind, const std::string& group, int group_size, bool crosses_nodes) const;
  /// Returns the seconds of a task that has the machine for itself: the sum for its matrix products (which share its
  /// FLOPs evenly), its copied bytes and its wire bytes. Throws base::Error(usage) that names the missing and the
  /// available measurements.
  double seconds(const TaskSpec& task) const;

  /// Throws base::Error(usage) if the sizes of a curve do not ascend, a time is invalid, or an alpha is not in (0, 1].
  void check() const;

  /// Returns rates of a plain machine, for use without measurements: one core of a server processor, ranks on one node
  /// over shared memory, nodes over gigabit Ethernet. Good for comparing schedules, not for predicting seconds.
  static Rates defaults();
};

/// Returns the links that tasks of `graph` use and `rates` does not list, each once: "all_to_all of ep, 8 ranks,
/// between nodes".
std::vector<std::string> unmeasured_links(const TaskGraph& graph, const Rates& rates);

}  // namespace hexad::schedule
