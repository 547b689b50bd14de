#include "framework/schedule/queues.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "framework/base/error.h"

namespace hexad::schedule {
namespace {

constexpr int max_beside = std::numeric_limits<size_t>::digits;

class Run {
 public:
  Run(std::span<const Job> jobs, const QueueSets& sets)
      : jobs_(jobs),
        sets_(sets),
        states_(jobs.size()),
        queues_(sets.sets * sets.beside),
        first_waiting_(jobs.size() + 1),
        active_(sets.sets) {
    base::require(sets.beside <= max_beside, "[schedule] each set has ", sets.beside, " queues; expected at most ",
                  max_beside, ", because 64 bits mark the active queues of a set");
    queue_of_.reserve(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      const Job& job = jobs[i];
      base::require(job.queue == Job::no_queue || (job.queue >= 0 && job.queue < sets.sets * sets.beside),
                    "[schedule] job ", i, " is in queue ", job.queue, "; expected a queue from 0 to ",
                    sets.sets * sets.beside - 1, ", or ", Job::no_queue, " (no queue)");
      queue_of_.push_back(job.queue == Job::no_queue ? queues_.size() : static_cast<size_t>(job.queue));
      if (job.queue == Job::no_queue) queues_.emplace_back();
      queues_[queue_of_[i]].jobs.push_back(i);
      states_[i].waits_for = job.after.size();
      for (int before : job.after) ++first_waiting_[before + 1];
      if (job.collective == Job::alone) continue;
      collectives_.resize(std::max(collectives_.size(), static_cast<size_t>(job.collective) + 1));
      collectives_[job.collective].push_back(i);
    }
    std::partial_sum(first_waiting_.begin(), first_waiting_.end(), first_waiting_.begin());
    waiting_.resize(first_waiting_.back());
    std::vector<size_t> next(first_waiting_.begin(), first_waiting_.end() - 1);
    for (size_t i = 0; i < jobs.size(); ++i)
      for (int before : jobs[i].after) waiting_[next[before]++] = i;
    for (const auto& members : collectives_) unmoved_.push_back(members.size());
    times_.jobs.resize(jobs.size());
    if (sets.sharing) add_nodes(*sets.sharing);
  }

  JobTimes run() {
    for (size_t q = 0; q < queues_.size(); ++q) begin_head(q);
    settle();
    while (!events_.empty()) {
      pass_time();
      settle();
    }
    for (const Queue& queue : queues_)
      if (const size_t* job = queue.head()) times_.stuck.push_back(static_cast<int>(*job));
    return std::move(times_);
  }

 private:
  struct State {
    size_t waits_for = 0;  // number of predecessors that are not done
    bool working = false;
    double left = 0, speed = 0, since = 0;  // `left`: work left at time `since`, in seconds at full speed; `speed`:
                                            // current speed
    size_t version = 0;                     // version of the job's current event; older events are ignored
  };
  struct Queue {
    std::vector<size_t> jobs;
    size_t at = 0;
    double idle_since = 0;
    double rested = std::numeric_limits<double>::infinity();  // seconds of idle time that no job has used yet
    const size_t* head() const { return at < jobs.size() ? &jobs[at] : nullptr; }
  };
  struct Node {
    std::vector<size_t> sets;
    double mean = -1;  // cores that the sets need on average; -1: not known yet
  };
  struct Event {
    double time;
    size_t job, version;
    bool operator>(const Event& other) const { return time > other.time; }
  };

  size_t set_of(size_t queue) const { return queue / sets_.beside; }
  size_t bit_of(size_t queue) const { return size_t{1} << (queue % sets_.beside); }
  // False for a queue that was made for a single job with Job::no_queue.
  bool is_in_set(size_t queue) const { return set_of(queue) < active_.size(); }
  // Marks a queue of a set as active or idle.
  void mark(size_t queue, bool active) {
    size_t& queues = active_[set_of(queue)];
    queues = active ? queues | bit_of(queue) : queues & ~bit_of(queue);
    changed_.push_back(set_of(queue));
  }

  void add_nodes(const CoreSharing& sharing) {
    base::require(sharing.node.size() == active_.size(), "[schedule] CoreSharing::node has ", sharing.node.size(),
                  " entries; expected one entry for each of ", active_.size(), " sets");
    for (size_t set = 0; set < sharing.node.size(); ++set) {
      if (sharing.node[set] == CoreSharing::no_node) continue;
      const size_t node = sharing.node[set];
      if (nodes_.size() <= node) nodes_.resize(node + 1);
      nodes_[node].sets.push_back(set);
    }
  }

  // Returns the node whose cores the set shares; null if it shares no cores.
  Node* node_of(size_t set) {
    if (!sets_.sharing || sets_.sharing->node[set] == CoreSharing::no_node) return nullptr;
    return &nodes_[sets_.sharing->node[set]];
  }

  double mean_needed(const Node& node) const {
    double sum = 0;
    for (const size_t set : node.sets) sum += sets_.sharing->needed(active_[set]);
    return sum / static_cast<double>(node.sets.size());
  }

  void begin_head(size_t queue) {
    const size_t* job = queues_[queue].head();
    if (!job || states_[*job].working || states_[*job].waits_for > 0) return;
    State& s = states_[*job];
    times_.jobs[*job].begin = now_;
    s.working = true;
    s.left = jobs_[*job].seconds - saved_by_rest(queues_[queue], jobs_[*job]);
    s.since = now_;
    if (s.left <= 0)
      moved_.push_back(*job);
    else if (is_in_set(queue))
      mark(queue, true);
    else
      events_.push({now_ + s.left, *job, ++s.version});
  }

  // Returns the seconds that a job saves because its queue was idle. Must be called when the job begins.
  double saved_by_rest(Queue& queue, const Job& job) const {
    queue.rested += now_ - std::exchange(queue.idle_since, now_);
    if (job.burst.full == 0) return 0;
    queue.rested = std::min(queue.rested, job.burst.full);
    const double saved = std::clamp(job.seconds - job.burst.least, 0.0, queue.rested);
    queue.rested -= saved;
    return saved;
  }

  // Processes the jobs that have done their work at time now_:
  //   - ends these jobs; the jobs of a collective end once all of them have done their work;
  //   - begins the next jobs of the queues if they can begin;
  //   - updates the speeds in each set in which a queue has become active or idle;
  //   - also updates the other sets of a node if the average number of cores that the node's sets need has changed.
  void settle() {
    while (!moved_.empty()) {
      const size_t job = moved_.back();
      moved_.pop_back();
      const int c = jobs_[job].collective;
      if (c == Job::alone)
        end(job);
      else if (--unmoved_[c] == 0)
        for (size_t member : collectives_[c]) end(member);
    }
    for (size_t set : changed_) {
      Node* const node = node_of(set);
      const double mean = node ? mean_needed(*node) : 0;
      if (node && std::exchange(node->mean, mean) != mean)
        for (const size_t sharer : node->sets) set_speeds(sharer);
      else
        set_speeds(set);
    }
    changed_.clear();
  }

  void end(size_t job) {
    times_.jobs[job].end = now_;
    const size_t queue = queue_of_[job];
    ++queues_[queue].at;
    begin_head(queue);
    for (size_t i = first_waiting_[job]; i < first_waiting_[job + 1]; ++i) {
      const size_t next = waiting_[i];
      if (--states_[next].waits_for == 0 && *queues_[queue_of_[next]].head() == next) begin_head(queue_of_[next]);
    }
  }

  void set_speeds(size_t set) {
    const size_t active = active_[set];
    const Node* const node = node_of(set);
    for (size_t rest = active; rest != 0; rest &= rest - 1) {
      const size_t lane = std::countr_zero(rest);
      const size_t job = *queues_[set * sets_.beside + lane].head();
      State& s = states_[job];
      double speed = sets_.speed ? sets_.speed(static_cast<int>(lane), active & ~(size_t{1} << lane)) : 1;
      if (node) speed *= sets_.sharing->speed(static_cast<int>(lane), active, node->mean);
      if (speed == s.speed && s.version > 0) continue;
      s.left -= (now_ - s.since) * s.speed;
      s.since = now_;
      s.speed = speed;
      events_.push({now_ + s.left / speed, job, ++s.version});
    }
  }

  // Advances the time until the next job has done its work. Times that differ only by rounding count as equal.
  void pass_time() {
    const auto old = [&](const Event& e) { return e.version != states_[e.job].version; };
    while (!events_.empty() && old(events_.top())) events_.pop();
    if (events_.empty()) return;
    const double before = now_;
    now_ = events_.top().time;
    const double tie = now_ + (now_ - before) * 1e-12;
    for (; !events_.empty() && events_.top().time <= tie; events_.pop()) {
      const Event e = events_.top();
      if (old(e)) continue;
      State& s = states_[e.job];
      s.left = 0;
      ++s.version;
      moved_.push_back(e.job);
      queues_[queue_of_[e.job]].idle_since = now_;
      if (is_in_set(queue_of_[e.job])) mark(queue_of_[e.job], false);
    }
  }

  const std::span<const Job> jobs_;
  const QueueSets& sets_;
  std::vector<State> states_;
  std::vector<Queue> queues_;     // the queues of the sets, then one for each job without a queue
  std::vector<size_t> queue_of_;  // index of each job's queue in queues_
  // Jobs that wait for job j: waiting_[first_waiting_[j]] to waiting_[first_waiting_[j + 1] - 1].
  std::vector<size_t> first_waiting_, waiting_;
  std::vector<size_t> active_;                    // bit set of the active queues of each set
  std::vector<Node> nodes_;                       // nodes whose cores are shared
  std::vector<std::vector<size_t>> collectives_;  // jobs of each collective
  std::vector<size_t> unmoved_;                   // number of jobs in each collective that have not done their work
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<size_t> moved_;    // jobs that have done their work at this time
  std::vector<size_t> changed_;  // sets in which a queue has become active or idle
  double now_ = 0;
  JobTimes times_;
};

}  // namespace

JobTimes run_jobs(std::span<const Job> jobs, const QueueSets& queues) { return Run(jobs, queues).run(); }

}  // namespace hexad::schedule
