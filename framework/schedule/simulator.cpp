#include "framework/schedule/simulator.h"

#include <algorithm>
#include <array>
#include <limits>

#include "framework/base/error.h"

namespace hexad::schedule {
namespace {

constexpr int alone = -1;  // no collective

// By rank and task: which collective it is part of.
using Parts = std::vector<std::vector<int>>;

struct State {
  enum class Phase : uint8_t { waits, works, moved, done } phase = Phase::waits;
  double left = 0;  // seconds of work at full speed
};
using Phase = State::Phase;

struct Rank {
  std::span<const Task> tasks;
  std::vector<State> states;
  std::array<std::vector<size_t>, device::lane_count> lanes;  // tasks
  std::array<size_t, device::lane_count> heads{};             // of each lane, the first task that is not done
  size_t at = 0;                                              // where the thread of Drive::caller is

  Rank(const TaskGraph& graph, const Rates& rates) : tasks(graph.tasks()), states(tasks.size()) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      states[i].left = rates.seconds(tasks[i].spec);
      lanes[static_cast<size_t>(tasks[i].spec.lane)].push_back(i);
    }
  }
  /// The task at the head of a lane; null when the lane is empty.
  const size_t* head(size_t lane) const {
    return heads[lane] < lanes[lane].size() ? &lanes[lane][heads[lane]] : nullptr;
  }
  bool ready(size_t task) const {
    return std::all_of(tasks[task].after.begin(), tasks[task].after.end(),
                       [&](TaskId before) { return states[static_cast<size_t>(before)].phase == Phase::done; });
  }
  void issue() {
    while (at < tasks.size() && ready(at) && (is_communication(tasks[at].spec.kind) || states[at].phase == Phase::done))
      ++at;
  }
};

class Simulation {
 public:
  Simulation(std::span<const TaskGraph* const> graphs, const Rates& rates, Parts parts, Drive drive)
      : parts_(std::move(parts)), drive_(drive) {
    rates.check();
    for (int lane = 0; lane < device::lane_count; ++lane)
      for (size_t set = 0; set < speeds_[0].size(); ++set)
        speeds_[static_cast<size_t>(lane)][set] = rates.alpha(static_cast<Lane>(lane), lane_set(set));
    for (const TaskGraph* graph : graphs) {
      ranks_.emplace_back(*graph, rates);
      Timeline& timeline = timelines_.emplace_back();
      for (const Task& task : graph->tasks()) timeline.spans.push_back({task.spec});
    }
    for (const auto& rank : parts_)
      for (int part : rank)
        if (part != alone) {
          unmoved_.resize(std::max(unmoved_.size(), static_cast<size_t>(part) + 1));
          ++unmoved_[static_cast<size_t>(part)];
        }
  }

  std::vector<Timeline> run() {
    do {
      while (settle()) {
      }
    } while (work());
    check_done();
    return std::move(timelines_);
  }

 private:
  static LaneSet lane_set(size_t index) {
    LaneSet set;
    for (int lane = 0; lane < device::lane_count; ++lane)
      if (index >> lane & 1) set.add(static_cast<Lane>(lane));
    return set;
  }

  // Everything that happens now: tasks end and begin. True when something did.
  bool settle() {
    bool changed = false;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      rank.issue();
      for (size_t lane = 0; lane < rank.lanes.size(); ++lane)
        while (const size_t* task = rank.head(lane)) {
          if (!begin(r, *task) && !end(r, *task)) break;
          changed = true;
        }
    }
    return changed;
  }

  bool begin(size_t r, size_t task) {
    Rank& rank = ranks_[r];
    State& state = rank.states[task];
    if (state.phase != Phase::waits || !rank.ready(task)) return false;
    if (drive_ == Drive::caller && task > rank.at) return false;
    timelines_[r].spans[task].begin = now_;
    state.phase = Phase::works;
    if (state.left == 0) moved(r, task);
    return true;
  }

  void moved(size_t r, size_t task) {
    ranks_[r].states[task].phase = Phase::moved;
    if (const int part = parts_[r][task]; part != alone) --unmoved_[static_cast<size_t>(part)];
  }

  bool end(size_t r, size_t task) {
    Rank& rank = ranks_[r];
    if (rank.states[task].phase != Phase::moved) return false;
    if (const int part = parts_[r][task]; part != alone && unmoved_[static_cast<size_t>(part)] > 0) return false;
    rank.states[task].phase = Phase::done;
    timelines_[r].spans[task].end = now_;
    ++rank.heads[static_cast<size_t>(rank.tasks[task].spec.lane)];
    return true;
  }

  // Lets time pass until the next task has done its work. False when none is at work.
  bool work() {
    struct Worker {
      size_t rank, task;
      double speed, seconds;
    };
    std::vector<Worker> workers;
    double step = std::numeric_limits<double>::infinity();
    for (size_t r = 0; r < ranks_.size(); ++r) {
      LaneSet active;
      const size_t first = workers.size();
      for (size_t lane = 0; lane < ranks_[r].lanes.size(); ++lane)
        if (const size_t* task = ranks_[r].head(lane); task && ranks_[r].states[*task].phase == Phase::works) {
          active.add(static_cast<Lane>(lane));
          workers.push_back({r, *task, 1, 0});
        }
      for (size_t w = first; w < workers.size(); ++w) {
        const Lane lane = ranks_[r].tasks[workers[w].task].spec.lane;
        workers[w].speed = speeds_[static_cast<size_t>(lane)][active.without(lane).index()];
        workers[w].seconds = ranks_[r].states[workers[w].task].left / workers[w].speed;
        step = std::min(step, workers[w].seconds);
      }
    }
    if (workers.empty()) return false;
    now_ += step;
    constexpr double tie = 1 + 1e-12;  // what differs by rounding ends together
    for (const Worker& w : workers)
      if (w.seconds <= step * tie)
        moved(w.rank, w.task);
      else
        ranks_[w.rank].states[w.task].left -= step * w.speed;
    return true;
  }

  void check_done() const {
    std::string stuck;
    for (size_t r = 0; r < ranks_.size(); ++r)
      for (size_t lane = 0; lane < ranks_[r].lanes.size(); ++lane)
        if (const size_t* task = ranks_[r].head(lane))
          stuck += base::cat(stuck.empty() ? "" : ", ", "rank ", r, " at '", ranks_[r].tasks[*task].spec.name, "' (",
                             name_of(static_cast<Lane>(lane)), ")");
    base::require(stuck.empty(), "[schedule] ranks wait for each other for ever: ", stuck);
  }

  std::vector<Rank> ranks_;
  std::vector<Timeline> timelines_;
  const Parts parts_;
  std::vector<int> unmoved_;  // by collective: members that have not moved their bytes
  const Drive drive_;
  std::array<std::array<double, 1 << device::lane_count>, device::lane_count> speeds_;
  double now_ = 0;
};

// One rank's view of a group: its collectives in order.
struct Member {
  size_t rank;
  std::vector<size_t> tasks;
};

using Members = std::map<std::pair<std::string, int>, std::vector<Member>>;

Members members_of(std::span<const TaskGraph* const> graphs, const RankGroups& groups) {
  Members all;
  for (const auto& [group, numbers] : groups) {
    base::require(numbers.size() == graphs.size(), "[schedule] group '", group, "' names ", numbers.size(),
                  " ranks of ", graphs.size());
    for (size_t r = 0; r < numbers.size(); ++r) all[{group, numbers[r]}].push_back({r, {}});
  }
  for (size_t r = 0; r < graphs.size(); ++r)
    for (size_t i = 0; i < graphs[r]->tasks().size(); ++i) {
      const TaskSpec& task = graphs[r]->tasks()[i].spec;
      if (!is_communication(task.kind) || task.cost.group_size == 1) continue;
      const auto it = groups.find(task.cost.group);
      base::require(it != groups.end(), "[schedule] task '", task.name, "' of rank ", r, " travels in group '",
                    task.cost.group, "', whose members are not given");
      auto& members = all[{task.cost.group, it->second[r]}];
      base::require(members.size() == static_cast<size_t>(task.cost.group_size), "[schedule] task '", task.name,
                    "' of rank ", r, " travels among ", task.cost.group_size, " ranks, but its group '",
                    task.cost.group, "' has ", members.size());
      std::find_if(members.begin(), members.end(), [r](const Member& m) { return m.rank == r; })->tasks.push_back(i);
    }
  return all;
}

Parts match(std::span<const TaskGraph* const> graphs, const RankGroups& groups) {
  Parts parts;
  for (const TaskGraph* graph : graphs) parts.emplace_back(graph->tasks().size(), alone);
  int collectives = 0;
  for (const auto& [group, members] : members_of(graphs, groups)) {
    const Member& first = members.front();
    for (const Member& member : members) {
      base::require(member.tasks.size() == first.tasks.size(), "[schedule] group '", group.first, "': rank ",
                    first.rank, " takes part in ", first.tasks.size(), " collectives, rank ", member.rank, " in ",
                    member.tasks.size());
      for (size_t k = 0; k < first.tasks.size(); ++k) {
        const TaskSpec& mine = graphs[member.rank]->tasks()[member.tasks[k]].spec;
        const TaskSpec& firsts = graphs[first.rank]->tasks()[first.tasks[k]].spec;
        base::require(mine.kind == firsts.kind, "[schedule] group '", group.first, "', collective ", k, ": '",
                      firsts.name, "' of rank ", first.rank, " is ", name_of(firsts.kind), ", '", mine.name,
                      "' of rank ", member.rank, " is ", name_of(mine.kind));
        parts[member.rank][member.tasks[k]] = collectives + static_cast<int>(k);
      }
    }
    collectives += static_cast<int>(first.tasks.size());
  }
  return parts;
}

}  // namespace

Timeline simulate(const TaskGraph& graph, const Rates& rates, Drive drive) {
  const TaskGraph* const graphs[] = {&graph};
  return std::move(Simulation(graphs, rates, {std::vector<int>(graph.tasks().size(), alone)}, drive).run().front());
}

std::vector<Timeline> simulate(std::span<const TaskGraph* const> graphs, const Rates& rates, const RankGroups& groups,
                               Drive drive) {
  return Simulation(graphs, rates, match(graphs, groups), drive).run();
}

}  // namespace hexad::schedule
