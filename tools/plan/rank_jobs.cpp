#include "tools/plan/rank_jobs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "tools/plan/host_clock.h"

namespace hexad::plan {

using device::CommunicationWork;
using device::Issue;
using schedule::Interval;
using schedule::Job;

int Queues::number_of(const Key& key) {
  const auto at = std::ranges::find(keys_, key);
  const auto number = device::lane_count + static_cast<int>(at - keys_.begin());
  base::require(number < most, "[plan] a rank of a simulated step has ", number + 1, " queues; expected at most ",
                most);
  if (at == keys_.end()) keys_.push_back(key);
  return number;
}

RankJobs::RankJobs(const StepRecord& record, const std::vector<int>& nodes, const StepContention& contention)
    : record_(record),
      nodes_(nodes),
      contention_(contention),
      networks_(record.groups.size()),
      awaited_(record.issues.size()),
      job_of_(record.issues.size()),
      seconds_(record.issues.size()) {
  for (const Issue& issue : record.issues)
    for (const int32_t before : issue.after) awaited_[before] = true;
}

void RankJobs::add_to(std::vector<Job>& jobs, int first_queue, Queues& queues, const std::vector<int>& simulated) {
  first_job_ = static_cast<int>(jobs.size());
  for (size_t i = 0; i < record_.issues.size(); ++i) {
    if (const auto job = job_to_join(i)) {
      job_of_[i] = *job;
      continue;
    }
    const Issue& issue = record_.issues[i];
    std::vector<int> after(issue.after.size());
    for (size_t a = 0; a < after.size(); ++a) after[a] = job_of_[issue.after[a]];
    if (waits_for_host(issue)) {
      jobs.push_back({Job::no_queue, 0, std::move(after), Job::alone});
      after = {static_cast<int>(jobs.size()) - 1};
    }
    job_of_[i] = static_cast<int>(jobs.size());
    jobs.push_back({first_queue + queue_of(issue, queues, simulated), 0, std::move(after), Job::alone});
  }
  last_job_ = static_cast<int>(jobs.size());
}

void RankJobs::set_times(std::span<Job> jobs, const PriceOfIssue& price) {
  HostClock host(record_, contention_.issuing);
  for (int j = first_job_; j < last_job_; ++j) jobs[j].seconds = 0;
  for (size_t i = 0; i < record_.issues.size(); ++i) {
    const Issue& issue = record_.issues[i];
    seconds_[i] = issue.name == "receive" ? 0 : price(record_, issue);
    const double delay = contention_.issuing > 0 ? host.delay(seconds_[i]) : 0;
    if (waits_for_host(issue))
      jobs[job_of_[i] - 1].seconds = delay;
    else
      seconds_[i] += delay;
    jobs[job_of_[i]].seconds += seconds_[i];
  }
}

std::vector<Interval> RankJobs::times_of(std::span<const Job> jobs, std::span<const Interval> times) const {
  std::vector<Interval> all;
  all.reserve(record_.issues.size());
  // Current job of each lane, and the seconds of this job so far.
  std::array<std::pair<int, double>, device::lane_count> passed{};
  for (size_t i = 0; i < record_.issues.size(); ++i) {
    const int job = job_of_[i];
    const Interval& at = times[job];
    if (record_.issues[i].communicates() || jobs[job].seconds <= 0) {
      all.push_back(at);
      continue;
    }
    auto& [current, seconds] = passed[base::ordinal(record_.issues[i].lane)];
    if (std::exchange(current, job) != job) seconds = 0;
    const double before = std::exchange(seconds, seconds + seconds_[i]);
    all.push_back({std::lerp(at.begin, at.end, before / jobs[job].seconds),
                   std::lerp(at.begin, at.end, seconds / jobs[job].seconds)});
  }
  return all;
}

std::optional<int> RankJobs::job_to_join(size_t i) {
  const Issue& issue = record_.issues[i];
  if (issue.communicates()) return {};
  const auto before = std::exchange(last_[base::ordinal(issue.lane)], i);
  if (!before || awaited_[*before] || !issue.after.empty()) return {};
  return job_of_[*before];
}

bool RankJobs::waits_for_host(const Issue& issue) const { return contention_.issuing > 0 && issue.communicates(); }

Network RankJobs::network_between(int rank, int other) const {
  const int nodes = contention_.nodes_of_domain;
  return nodes_[rank] / nodes == nodes_[other] / nodes ? Network::intra : Network::inter;
}

int RankJobs::queue_of(const Issue& issue, Queues& queues, const std::vector<int>& simulated) {
  const auto* work = std::get_if<CommunicationWork>(&issue.work);
  if (!work) return static_cast<int>(issue.lane);
  const device::IssuedGroup& group = record_.groups[work->group];
  if (!is_message(issue)) {
    return queues.number_of({group.traffic, network_of(work->group), 0});
  }
  const int peer = group.ranks[work->peer];
  const int pair = std::ranges::find(simulated, peer) == simulated.end() ? 0 : 1 + number_of_peer(peer);
  return queues.number_of(
      {group.traffic, network_between(group.ranks[group.rank], peer), 1 + 2 * pair + (issue.name == "send" ? 1 : 0)});
}

Network RankJobs::network_of(int group) {
  std::optional<Network>& network = networks_[group];
  if (!network) {
    const std::vector<int>& ranks = record_.groups[group].ranks;
    const bool inside =
        std::ranges::all_of(ranks, [&](int r) { return network_between(r, ranks.front()) == Network::intra; });
    network = inside ? Network::intra : Network::inter;
  }
  return *network;
}

int RankJobs::number_of_peer(int peer) {
  const auto at = std::ranges::find(peers_, peer);
  const auto number = static_cast<int>(at - peers_.begin());
  if (at == peers_.end()) peers_.push_back(peer);
  return number;
}

}  // namespace hexad::plan
