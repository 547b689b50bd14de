#include "tools/plan/step_simulation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "framework/schedule/queues.h"
#include "tools/plan/job_matches.h"

namespace hexad::plan {
namespace {

using comm::traffic_class_count;
using schedule::Interval;
using schedule::Job;

// Relative speed of a class of traffic while a class with higher priority is in flight on the same network.
constexpr double gives_way = 1e-3;

double speed_of_queue(int queue, uint64_t others, const Queues& queues, const StepContention& c) {
  std::array<bool, 2> in_flight{};  // true if traffic is in flight, by network
  bool computes = false, copies = false;
  int sharers = 1;
  bool higher = false;
  for (; others != 0; others &= others - 1) {
    const int other = std::countr_zero(others);
    if (is_lane(other)) {
      (other == static_cast<int>(device::Lane::copy) ? copies : computes) = true;
      continue;
    }
    const Queues::Key& theirs = queues.key(other);
    in_flight[base::ordinal(theirs.network)] = true;
    if (is_lane(queue) || theirs.network != queues.key(queue).network) continue;
    const int own = c.priority[queues.key(queue).traffic], their = c.priority[theirs.traffic];
    sharers += their == own;
    higher = higher || their < own;
  }
  if (queue == static_cast<int>(device::Lane::copy)) return 1;
  if (is_lane(queue))
    return (in_flight[0] ? c.compute_beside_intra : 1) * (in_flight[1] ? c.compute_beside_inter : 1) *
           (copies ? c.compute_beside_copy : 1);
  const bool inside = queues.key(queue).network == Network::intra;
  const double beside = !computes ? 1 : inside ? c.intra_beside_compute : c.inter_beside_compute;
  return (higher ? gives_way : 1.0 / sharers) * beside;
}

// Returns the cores that a rank needs for `jobs`:
// - one for each thread while kernels run
// - additionally, one while the copy lane runs
// - SharedCores::waiting while no lane runs
schedule::CoreNeeds needs_of(std::span<const Job> jobs, const schedule::SharedCores& cores) {
  constexpr uint64_t copies = uint64_t{1} << static_cast<int>(device::Lane::copy);
  constexpr uint64_t kernels = ((uint64_t{1} << device::lane_count) - 1) & ~copies;
  const bool any_copies = std::ranges::any_of(
      jobs, [](const Job& job) { return job.queue % Queues::most == static_cast<int>(device::Lane::copy); });
  return {.cores =
              [cores](size_t active) {
                const int needed = ((active & kernels) != 0 ? cores.threads : 0) + ((active & copies) != 0 ? 1 : 0);
                return needed > 0 ? static_cast<double>(needed) : cores.waiting;
              },
          .most = static_cast<double>(cores.threads + (any_copies ? 1 : 0)),
          .local = is_lane};
}

// Divides the time of a rank into computation, exposed communication, and idle time. A collective counts as
// communication only after its last member has begun. Until then, the rank waits for this member. `begins` has the time
// at which the last member of each collective begins.
void account(SimulatedRank& rank, const RankJobs& from, std::span<const Job> jobs, std::span<const Interval> times,
             std::span<const double> begins, const Queues& queues, int first_queue, double seconds) {
  struct Change {
    double time;
    int traffic;  // class of traffic; -1: a lane
    int by;
  };
  std::vector<Change> changes{{seconds, -1, 0}};
  std::vector<bool> counted(jobs.size(), false);
  for (size_t i = 0; i < from.record().issues.size(); ++i) {
    const int job = from.job_of(i);
    if (counted[job]) continue;
    counted[job] = true;
    if (jobs[job].queue == Job::no_queue) continue;  // this rank's message in the mirrored direction is counted instead
    const int queue = jobs[job].queue - first_queue;
    const int traffic = is_lane(queue) ? -1 : queues.key(queue).traffic;
    const double begin = jobs[job].collective == Job::alone ? times[job].begin
                                                            : std::max(times[job].begin, begins[jobs[job].collective]);
    if (times[job].end <= begin) continue;
    changes.push_back({begin, traffic, 1});
    changes.push_back({times[job].end, traffic, -1});
  }
  std::ranges::sort(changes, {}, &Change::time);
  std::array<int, traffic_class_count> flying{};
  int computing = 0;
  double now = 0;
  for (const Change& c : changes) {
    const double passed = c.time - now;
    const auto classes = std::ranges::count_if(flying, [](int n) { return n > 0; });
    if (computing > 0)
      rank.busy += passed;
    else if (classes == 0)
      rank.idle += passed;
    else
      for (size_t t = 0; t < flying.size(); ++t)
        if (flying[t] > 0) rank.exposed[t] += passed / static_cast<double>(classes);
    now = c.time;
    (c.traffic < 0 ? computing : flying[c.traffic]) += c.by;
  }
}

}  // namespace

struct StepSimulation::Jobs {
  std::vector<RankJobs> ranks;
  std::vector<Job> jobs;
  Queues queues;
  int collectives = 0;
};

StepSimulation::StepSimulation(std::span<const StepRecord> records, const std::vector<int>& node_of_rank,
                               const StepContention& contention)
    : records_(records), node_of_rank_(node_of_rank), contention_(contention), jobs_(std::make_unique<Jobs>()) {
  std::vector<RankJobs>& ranks = jobs_->ranks;
  std::vector<int> simulated;
  ranks.reserve(records.size());
  for (const StepRecord& record : records) simulated.push_back(record.rank);
  for (const StepRecord& record : records) {
    ranks.emplace_back(record, node_of_rank, contention_);
    ranks.back().add_to(jobs_->jobs, static_cast<int>(ranks.size() - 1) * Queues::most, jobs_->queues, simulated);
  }
  JobMatches matches(jobs_->jobs);
  matches.match(ranks);
  jobs_->collectives = matches.collectives();
}

StepSimulation::~StepSimulation() = default;

SimulatedStep StepSimulation::run(const PriceOfIssue& price) {
  std::vector<RankJobs>& ranks = jobs_->ranks;
  std::vector<Job>& jobs = jobs_->jobs;
  const Queues& queues = jobs_->queues;
  std::vector<int> nodes;
  if (contention_.cores)
    for (const StepRecord& record : records_) nodes.push_back(node_of_rank_[record.rank]);
  for (RankJobs& rank : ranks) rank.set_times(jobs, price);
  const schedule::JobTimes times = schedule::run_jobs(
      jobs, {.sets = static_cast<int>(ranks.size()),
             .beside = Queues::most,
             .speed = [&](int queue, size_t others) { return speed_of_queue(queue, others, queues, contention_); },
             .sharing = schedule::sharing_of(contention_.cores, std::move(nodes),
                                             needs_of(jobs, contention_.cores.value_or(schedule::SharedCores{})))});
  if (!times.stuck.empty()) {
    constexpr int named = 6;
    std::string where;
    int count = 0;
    for (const RankJobs& r : ranks)
      for (size_t i = 0; i < r.record().issues.size(); ++i)
        if (std::ranges::find(times.stuck, r.job_of(i)) != times.stuck.end() && count++ < named)
          where += base::cat(where.empty() ? "" : ", ", "rank ", r.record().rank, " at ", r.record().issues[i].family,
                             ".", r.record().issues[i].name, " in ", r.record().where(r.record().issues[i]));
    base::fail_invariant(base::cat("[plan] ranks of the simulated step wait for each other forever: ", where,
                                   count > named ? base::cat(" and ", count - named, " more operations") : "",
                                   "; expected a step that ends"));
  }

  SimulatedStep step;
  std::vector<double> begins(jobs_->collectives, 0);
  for (size_t j = 0; j < jobs.size(); ++j) {
    step.seconds = std::max(step.seconds, times.jobs[j].end);
    if (jobs[j].collective != Job::alone)
      begins[jobs[j].collective] = std::max(begins[jobs[j].collective], times.jobs[j].begin);
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    SimulatedRank rank{.rank = records_[r].rank, .times = ranks[r].times_of(jobs, times.jobs)};
    account(rank, ranks[r], jobs, times.jobs, begins, queues, static_cast<int>(r) * Queues::most, step.seconds);
    step.ranks.push_back(std::move(rank));
  }
  return step;
}

SimulatedStep simulate_step(std::span<const StepRecord> records, const std::vector<int>& node_of_rank,
                            const PriceOfIssue& price, const StepContention& contention) {
  return StepSimulation(records, node_of_rank, contention).run(price);
}

}  // namespace hexad::plan
