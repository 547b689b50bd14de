#include "framework/schedule/simulator.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/thread_share.h"
#include "framework/schedule/queues.h"

namespace hexad::schedule {
namespace {

// Number of each task's collective, by rank and task; Job::alone for tasks that belong to no collective.
using Parts = std::vector<std::vector<int>>;

// Queues of a rank: one for each lane, and one for capped computations, which leave threads to the other lanes
// (Cost::share below 1). The jobs of this queue and of the compute lane's queue wait for each other, so that they run
// in insertion order.
constexpr int capped_queue = device::lane_count;
constexpr int queue_count = device::lane_count + 1;

int queue_of(const TaskSpec& task) {
  return task.lane == Lane::compute && task.cost.share < 1 ? capped_queue : static_cast<int>(task.lane);
}

LaneSet lane_set(size_t bits) {
  LaneSet set;
  for (int queue = 0; queue < queue_count; ++queue)
    if (bits >> queue & 1) set.add(queue == capped_queue ? Lane::compute : static_cast<Lane>(queue));
  return set;
}

// Speed of each queue, by the bit set of the other active queues.
using Speeds = std::array<std::array<double, 1 << queue_count>, queue_count>;

Speeds speeds_of(const Rates& rates) {
  Speeds speeds;
  for (int queue = 0; queue < queue_count; ++queue)
    for (size_t set = 0; set < speeds[queue].size(); ++set) {
      const bool capped = queue == capped_queue || (set >> capped_queue & 1) != 0;
      const Lane lane = queue == capped_queue ? Lane::compute : static_cast<Lane>(queue);
      speeds[queue][set] = rates.alpha(lane, lane_set(set), capped);
    }
  return speeds;
}

// Returns the number of threads of capped computations. If their shares differ, the largest share counts.
int capped_threads(std::span<const TaskGraph* const> graphs, int threads) {
  double share = 0;
  for (const TaskGraph* graph : graphs)
    for (const Task& task : graph->tasks())
      if (queue_of(task.spec) == capped_queue) share = std::max(share, task.spec.cost.share);
  return base::threads_of_share(threads, share);
}

// Returns the cores that a rank needs: one core for each thread of a computation, plus the cores of a copy. A copy
// needs one core for each thread of the rank's kernels with Drive::caller, and one core with Drive::threads. A rank
// that neither computes nor copies needs `cores.waiting`.
CoreNeeds needs_of(std::span<const TaskGraph* const> graphs, const SharedCores& cores, Drive drive) {
  const auto has = [](size_t active, int queue) { return (active >> queue & 1) != 0; };
  constexpr int compute = static_cast<int>(Lane::compute), copy = static_cast<int>(Lane::copy);
  const auto copies = [](const Task& task) { return queue_of(task.spec) == copy; };
  const bool beside = drive != Drive::caller && std::ranges::any_of(graphs, [&](const TaskGraph* graph) {
                        return std::ranges::any_of(graph->tasks(), copies);
                      });
  return {.cores =
              [=, capped = capped_threads(graphs, cores.threads),
               copying = drive == Drive::caller ? cores.threads : 1](size_t active) {
                const int needed = (has(active, compute) ? cores.threads : 0) +
                                   (has(active, capped_queue) ? capped : 0) + (has(active, copy) ? copying : 0);
                return needed > 0 ? static_cast<double>(needed) : cores.waiting;
              },
          .most = static_cast<double>(cores.threads + (beside ? 1 : 0)),
          .local = [](int queue) { return queue == compute || queue == copy || queue == capped_queue; }};
}

Burst burst_of(const TaskSpec& task, const Rates& rates) {
  const double full = rates.burst_of(task);
  return {.full = full, .least = full > 0 ? rates.seconds_in_burst(task) : 0};
}

// Appends a job for each task of a rank.
void add_jobs(std::vector<Job>& jobs, const TaskGraph& graph, const Rates& rates, int rank, std::span<const int> parts,
              Drive drive) {
  const int first = static_cast<int>(jobs.size());
  int computed = Job::alone;      // last job of the compute lane; alone: none
  std::vector<int> issued_after;  // Drive::caller: jobs that must be done before the thread issues its next task
  for (size_t i = 0; i < graph.tasks().size(); ++i) {
    const Task& task = graph.tasks()[i];
    const int number = first + static_cast<int>(i), queue = rank * queue_count + queue_of(task.spec);
    std::vector<int> after;
    for (TaskId before : task.after) after.push_back(first + before);
    if (task.spec.lane == Lane::compute) {
      if (computed != Job::alone && jobs[computed].queue != queue) after.push_back(computed);
      computed = number;
    }
    if (drive == Drive::caller) {
      issued_after.insert(issued_after.end(), after.begin(), after.end());
      std::ranges::sort(issued_after);
      issued_after.erase(std::ranges::unique(issued_after).begin(), issued_after.end());
      after = issued_after;
      if (!is_communication(task.spec.kind)) issued_after = {number};
    }
    jobs.push_back({queue, rates.seconds(task.spec), std::move(after), parts[i], burst_of(task.spec, rates)});
  }
}

// Simulates all ranks. `parts` contains the collective of each task of each rank. `nodes` contains the node of each
// rank.
std::vector<Timeline> run(std::span<const TaskGraph* const> graphs, const Rates& rates, const Parts& parts,
                          std::vector<int> nodes, Drive drive) {
  rates.check();
  for (size_t r = 0; r < graphs.size(); ++r)
    if (graphs[r]->tasks().empty()) nodes[r] = CoreSharing::no_node;
  std::vector<Job> jobs;
  for (size_t r = 0; r < graphs.size(); ++r) add_jobs(jobs, *graphs[r], rates, static_cast<int>(r), parts[r], drive);
  const JobTimes times =
      run_jobs(jobs, {.sets = static_cast<int>(graphs.size()),
                      .beside = queue_count,
                      .speed = [speeds = speeds_of(rates)](int queue, size_t others) { return speeds[queue][others]; },
                      .sharing = sharing_of(rates.cores, std::move(nodes),
                                            needs_of(graphs, rates.cores.value_or(SharedCores{}), drive))});
  std::string stuck;
  for (int job : times.stuck) {
    size_t rank = 0, task = job;
    for (; task >= graphs[rank]->tasks().size(); ++rank) task -= graphs[rank]->tasks().size();
    const TaskSpec& spec = graphs[rank]->tasks()[task].spec;
    stuck += base::cat(stuck.empty() ? "" : ", ", "rank ", rank, " at '", spec.name, "' (", name_of(spec.lane), ")");
  }
  base::require(stuck.empty(), "[schedule] ranks wait for each other forever: ", stuck,
                "; expected all ranks of a group to issue its collectives in the same order");
  std::vector<Timeline> timelines(graphs.size());
  size_t job = 0;
  for (size_t r = 0; r < graphs.size(); ++r)
    for (const Task& task : graphs[r]->tasks()) {
      const Interval& at = times.jobs[job++];
      timelines[r].spans.push_back({task.spec, at.begin, at.end});
    }
  return timelines;
}

// A rank of a group, and the rank's communication tasks in this group, in insertion order.
struct Member {
  size_t rank;
  std::vector<size_t> tasks;
};

using Members = std::map<std::pair<std::string, int>, std::vector<Member>>;

Members members_of(std::span<const TaskGraph* const> graphs, const RankGroups& groups) {
  Members all;
  for (const auto& [group, numbers] : groups) {
    base::require(numbers.size() == graphs.size(), "[schedule] group '", group, "': the number of entries is ",
                  numbers.size(), "; expected ", graphs.size(), ", one for each rank");
    for (size_t r = 0; r < numbers.size(); ++r) all[{group, numbers[r]}].push_back({r, {}});
  }
  for (size_t r = 0; r < graphs.size(); ++r)
    for (size_t i = 0; i < graphs[r]->tasks().size(); ++i) {
      const TaskSpec& task = graphs[r]->tasks()[i].spec;
      if (!is_communication(task.kind) || task.cost.group_size == 1) continue;
      const auto it = groups.find(task.cost.group);
      base::require(it != groups.end(), "[schedule] task '", task.name, "' of rank ", r, " communicates in group '",
                    task.cost.group, "', whose members are not given; expected a group of the argument `groups`");
      auto& members = all[{task.cost.group, it->second[r]}];
      base::require(std::ssize(members) == task.cost.group_size, "[schedule] task '", task.name, "' of rank ", r,
                    " communicates among ", task.cost.group_size, " ranks, but its group '", task.cost.group, "' has ",
                    base::counted(std::ssize(members), "rank"), "; expected equal numbers");
      std::find_if(members.begin(), members.end(), [r](const Member& m) { return m.rank == r; })->tasks.push_back(i);
    }
  return all;
}

Parts match(std::span<const TaskGraph* const> graphs, const RankGroups& groups) {
  Parts parts;
  for (const TaskGraph* graph : graphs) parts.emplace_back(graph->tasks().size(), Job::alone);
  int collectives = 0;
  for (const auto& [group, members] : members_of(graphs, groups)) {
    const Member& first = members.front();
    for (const Member& member : members) {
      base::require(member.tasks.size() == first.tasks.size(), "[schedule] group '", group.first,
                    "': the number of collectives is ", first.tasks.size(), " on rank ", first.rank, " and ",
                    member.tasks.size(), " on rank ", member.rank, "; expected equal numbers");
      for (size_t k = 0; k < first.tasks.size(); ++k) {
        const TaskSpec& mine = graphs[member.rank]->tasks()[member.tasks[k]].spec;
        const TaskSpec& firsts = graphs[first.rank]->tasks()[first.tasks[k]].spec;
        base::require(mine.kind == firsts.kind, "[schedule] group '", group.first, "', collective ", k, ": '",
                      firsts.name, "' of rank ", first.rank, " is ", name_of(firsts.kind), ", and '", mine.name,
                      "' of rank ", member.rank, " is ", name_of(mine.kind), "; expected equal kinds");
        parts[member.rank][member.tasks[k]] = collectives + static_cast<int>(k);
      }
    }
    collectives += static_cast<int>(first.tasks.size());
  }
  return parts;
}

// Returns the node of each rank. Each rank has its own node if `groups` does not contain the nodes.
std::vector<int> nodes_of(size_t ranks, const RankGroups& groups) {
  if (const auto given = groups.find(node_group); given != groups.end()) return given->second;
  std::vector<int> nodes(ranks);
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

}  // namespace

Timeline simulate(const TaskGraph& graph, const Rates& rates, Drive drive) {
  const TaskGraph* const graphs[] = {&graph};
  return std::move(run(graphs, rates, {std::vector<int>(graph.tasks().size(), Job::alone)}, {0}, drive).front());
}

std::vector<Timeline> simulate(std::span<const TaskGraph* const> graphs, const Rates& rates, const RankGroups& groups,
                               Drive drive) {
  const Parts parts = match(graphs, groups);
  return run(graphs, rates, parts, nodes_of(graphs.size(), groups), drive);
}

}  // namespace hexad::schedule
