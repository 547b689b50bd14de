// Speeds of a machine, as plain data from which the times of tasks are predicted. `hexad profile` measures them.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "framework/schedule/shared_cores.h"
#include "framework/schedule/task_graph.h"

namespace hexad::schedule {

/// Time in seconds as a function of size (bytes or FLOPs):
///   - Size 0 takes no time.
///   - Other sizes up to the first point take the time of the first point, which is the latency.
///   - Between two points, the curve is linear.
///   - Beyond the last point, the curve continues the last segment but never falls. If there is only one point, the
///     curve continues the line through the origin and this point.
struct TimeCurve {
  struct Point {
    double size, seconds;
  };
  std::vector<Point> points{};  // points in ascending order of size

  /// Returns a curve with `latency` seconds plus one second for each `per_second` bytes or FLOPs. Sizes between 0 and 1
  /// count as 1.
  static TimeCurve linear(double latency, double per_second);
  /// Returns the seconds for `size`. Throws std::logic_error if the curve has no points and `size` is above 0.
  double seconds(double size) const;
};

/// A set of lanes that are active at the same time.
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
  /// Returns a number from 0 to 15 that identifies the set.
  size_t index() const { return bits_; }
  std::string to_string() const;  // returns a text like "inter, copy"
  bool operator==(const LaneSet&) const = default;

 private:
  static unsigned bit(Lane lane) { return 1U << static_cast<unsigned>(lane); }
  unsigned bits_ = 0;
};

struct Rates {
  ByGemmPass<TimeCurve> compute{};  // time of one matrix product, by its FLOPs
  ByGemmPass<TimeCurve> dense{};    // like `compute`, for tasks with Cost::dense; `compute` replaces an empty curve
  TimeCurve copy{};                 // time of a copy, by its bytes

  /// Measured time of a collective or a send in one kind of group, while the machine has no other load.
  struct Link {
    TaskKind kind;
    std::string group;  // name of the group (Cost::group), for example "ep" or "tp"
    int group_size;
    bool crosses_nodes;
    TimeCurve curve;  // size: the bytes that a rank sends or receives, whichever is more
  };
  std::vector<Link> links{};

  /// Curves for all links that are not in `links`, whatever their kind, group and size. Code that predicts with these
  /// curves must report this to the user.
  struct OtherLinks {
    TimeCurve within_node, between_nodes;
  };
  std::optional<OtherLinks> other_links{};

  /// Bursts of links that a traffic shaper limits, in seconds. A link that was idle for its burst of b seconds then
  /// sends at once the bytes that otherwise take b seconds. 0: the link has no burst.
  struct Bursts {
    double between_nodes, within_node;
  };
  Bursts bursts{};

  /// Slowdown alpha(y, x) of MPMoE, Fig. 3: the speed of lane y while the lanes x are active, relative to its speed
  /// while no other lane is active.
  struct Slowdown {
    Lane lane;            // y
    LaneSet beside;       // x, one or more lanes
    double alpha;         // greater than 0, at most 1
    bool capped = false;  // true if the compute lane leaves threads to other lanes (Cost::share below 1)
  };
  std::vector<Slowdown> slowdowns{};

  /// Speeds of matrix products if no other lane is active. Entry i is the speed on i + 1 of the rank's threads,
  /// relative to the speed on all threads. The last entry is 1.
  std::vector<double> speed_of_threads{1};
  /// Returns the speed of products on the fraction `share` of the threads, relative to the speed on all threads.
  double speed_of_share(double share) const;

  /// Cores that the ranks of a node share; none: each rank works as fast as during the measurement.
  std::optional<SharedCores> cores{};

  /// Returns the speed of `lane` while the lanes `beside` are active; see Slowdown. Returns the measured value if this
  /// set of lanes was measured. Otherwise, estimates alpha: the delay 1/alpha - 1 of the set is the sum of the delays
  /// of its lanes. A lane that was not measured has a delay of zero. The estimate is exact if all lanes share one
  /// resource equally. In general, the estimate is at most the smallest alpha of a single lane (each lane uses a
  /// different resource). It is at least the product of the alphas of all single lanes (the slowdowns multiply).
  /// `capped` is true if the compute lane, which is `lane` or in `beside`, leaves threads to the other lanes. Uses a
  /// value that was measured without `capped` if no value was measured with `capped`.
  double alpha(Lane lane, LaneSet beside, bool capped = false) const;

  /// Returns the link in `links` with these properties; null if there is no such link.
  const Link* find(TaskKind kind, const std::string& group, int group_size, bool crosses_nodes) const;
  /// Returns the seconds of a task while no other lane is active. This is the sum of the times of the task's matrix
  /// products, copies and transfers, including Cost::transfers. The products share the FLOPs of the task equally, and
  /// run at the speed of the task's share of the threads. Throws base::Error(usage) if a measurement is missing, or if
  /// a task that is not communication transfers bytes.
  double seconds(const TaskSpec& task) const;
  /// Returns the burst of the task's link, in seconds; 0 if the task transfers no bytes.
  double burst_of(const TaskSpec& task) const;
  /// Returns the seconds of a task whose transfer fits in the burst of its link. The transfer then takes as long as the
  /// smallest measured transfer. Throws like seconds().
  double seconds_in_burst(const TaskSpec& task) const;

  /// Throws base::Error(usage) if a value is out of range:
  /// - a size of a curve is not finite, not above 0, or not greater than the size before it;
  /// - a time is negative or not finite;
  /// - the curve of a link has no point;
  /// - a burst is negative or not finite;
  /// - an alpha is not in (0, 1];
  /// - a speed of threads is not finite or not above 0;
  /// - a member of `cores` is out of range.
  void check() const;

  /// Returns rates of a simple machine, for use without measurements. Each rank has one core of a server processor.
  /// Ranks on one node communicate over shared memory, and nodes communicate over gigabit Ethernet. The rates are
  /// suitable for comparing schedules, not for predicting seconds.
  static Rates defaults();
};

/// The next two functions return the links over which `task` or the tasks of `graph` transfer bytes and that
/// Rates::links lacks. Each link is described once, by a text like "all_to_all of ep, 8 ranks, between nodes".
std::vector<std::string> unmeasured_links(const TaskSpec& task, const Rates& rates);
std::vector<std::string> unmeasured_links(const TaskGraph& graph, const Rates& rates);

}  // namespace hexad::schedule
