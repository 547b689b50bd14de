#include "tools/plan/step_simulation.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "framework/schedule/queues.h"

namespace hexad::plan {
namespace {

using comm::traffic_class_count;
using device::CommunicationWork;
using device::Issue;
using schedule::Interval;
using schedule::Job;

enum class Network : uint8_t { intra, inter };

// Queues of a rank: its lanes, then blocks of one queue for each class of traffic and network. Collectives use the
// first block. Messages use the others, one for each peer and direction, because they overtake each other.
constexpr int first_traffic = device::lane_count, block = 2 * traffic_class_count, blocks = 5;
constexpr int queues_a_rank = first_traffic + block * blocks;
static_assert(queues_a_rank <= 64, "a bit set names the active queues of a rank");

bool is_lane(int queue) { return queue < first_traffic; }
int traffic_of(int queue) { return (queue - first_traffic) % block / 2; }
Network network_of(int queue) { return static_cast<Network>((queue - first_traffic) % 2); }

bool is_message(const Issue& issue) { return issue.name == "send" || issue.name == "receive"; }

// Jobs of one rank.
class RankJobs {
 public:
  RankJobs(const StepRecord& record, const std::vector<int>& nodes, const PriceOfIssue& price)
      : record_(record), nodes_(nodes), price_(price), awaited_(record.issues.size()), job_of_(record.issues.size()) {
    for (const Issue& issue : record.issues)
      for (const int32_t before : issue.after) awaited_[before] = true;
  }

  const StepRecord& record() const { return record_; }
  int job_of(size_t issue) const { return job_of_[issue]; }

  // Appends the jobs, in queues from `first_queue` on.
  void add_to(std::vector<Job>& jobs, int first_queue) {
    for (size_t i = 0; i < record_.issues.size(); ++i) {
      const Issue& issue = record_.issues[i];
      const double seconds = issue.name == "receive" ? 0 : price_(record_, issue);
      if (const auto job = job_to_join(i)) {
        jobs[*job].seconds += seconds;
        job_of_[i] = *job;
        continue;
      }
      job_of_[i] = static_cast<int>(jobs.size());
      std::vector<int> after;
      for (const int32_t before : issue.after) after.push_back(job_of_[before]);
      jobs.push_back({first_queue + queue_of(issue), seconds, std::move(after), Job::alone});
    }
  }

 private:
  // Consecutive operations of a lane are one job if no other queue waits between them.
  std::optional<int> job_to_join(size_t i) {
    const Issue& issue = record_.issues[i];
    if (issue.communicates()) return {};
    const auto before = std::exchange(last_[base::ordinal(issue.lane)], i);
    if (!before || awaited_[*before] || !issue.after.empty()) return {};
    return job_of_[*before];
  }

  Network network_between(int rank, int other) const {
    return nodes_[rank] == nodes_[other] ? Network::intra : Network::inter;
  }

  int queue_of(const Issue& issue) {
    const auto* work = std::get_if<CommunicationWork>(&issue.work);
    if (!work) return static_cast<int>(issue.lane);
    const device::IssuedGroup& group = record_.groups[work->group];
    const auto queue = [&](int in_block, Network network) {
      return first_traffic + in_block * block + 2 * group.traffic + static_cast<int>(network);
    };
    if (!is_message(issue)) {
      const bool inside = std::ranges::all_of(
          group.ranks, [&](int r) { return network_between(r, group.ranks.front()) == Network::intra; });
      return queue(0, inside ? Network::intra : Network::inter);
    }
    auto& directions = directions_[group.traffic];
    const auto at = std::ranges::find(directions, std::pair(work->peer, issue.name));
    const auto number = static_cast<int>(at - directions.begin());
    if (at == directions.end()) directions.emplace_back(work->peer, issue.name);
    base::require(number + 1 < blocks, "[plan] rank ", record_.rank, " exchanges messages with more than ",
                  (blocks - 1) / 2, " ranks of '", group.name, "'");
    return queue(number + 1, network_between(group.ranks[group.rank], group.ranks[work->peer]));
  }

  const StepRecord& record_;
  const std::vector<int>& nodes_;
  const PriceOfIssue& price_;
  std::vector<char> awaited_;  // for each issue: true if communication or another lane waits for it
  std::vector<int> job_of_;
  std::array<std::optional<size_t>, device::lane_count> last_{};  // last issue of each lane
  std::array<std::vector<std::pair<int, std::string_view>>, traffic_class_count> directions_;
};

using Group = std::pair<std::string, std::vector<int>>;  // name and ranks

// Member of a group: its rank, and the indices of the operations that it issues in the group.
struct Member {
  const RankJobs* rank;
  std::vector<size_t> issues;
};

void require_alike(const Group& group, const Member& a, const Member& b) {
  const auto name = [](const Member& m, size_t k) { return m.rank->record().issues[m.issues[k]].name; };
  for (size_t k = 0; k < std::max(a.issues.size(), b.issues.size()); ++k) {
    const bool both = k < std::min(a.issues.size(), b.issues.size());
    base::require(both && name(a, k) == name(b, k), "[plan] group '", group.first, "': operation ", k, " of rank ",
                  a.rank->record().rank, " is ", k < a.issues.size() ? name(a, k) : "missing", ", that of rank ",
                  b.rank->record().rank, " is ", k < b.issues.size() ? name(b, k) : "missing");
  }
}

// Gives jobs that end together the number of their collective.
class Matches {
 public:
  explicit Matches(std::vector<Job>& jobs) : jobs_(jobs) {}

  void match(std::span<const RankJobs> ranks) {
    std::map<Group, std::vector<Member>> collectives;
    std::map<std::tuple<Group, int, int>, std::array<std::optional<Member>, 2>> messages;  // from, to; sent, received
    for (const RankJobs& r : ranks)
      for (size_t i = 0; i < r.record().issues.size(); ++i) {
        const Issue& issue = r.record().issues[i];
        if (!issue.communicates()) continue;
        const auto& work = std::get<CommunicationWork>(issue.work);
        const device::IssuedGroup& g = r.record().groups[work.group];
        const Group group{g.name, g.ranks};
        if (!is_message(issue)) {
          auto& members = collectives[group];
          if (members.empty() || members.back().rank != &r) members.push_back({&r, {}});
          members.back().issues.push_back(i);
          continue;
        }
        const bool sent = issue.name == "send";
        auto& side = messages[{group, sent ? g.rank : work.peer, sent ? work.peer : g.rank}][sent ? 0 : 1];
        if (!side) side = Member{&r, {}};
        side->issues.push_back(i);
      }
    for (auto& [group, members] : collectives) {
      for (const RankJobs& r : ranks)  // a member that takes part in none
        if (std::ranges::find(group.second, r.record().rank) != group.second.end() &&
            std::ranges::find(members, &r, &Member::rank) == members.end())
          members.push_back({&r, {}});
      for (const Member& m : members) require_alike(group, members.front(), m);
      if (members.size() > 1) join(members);
    }
    for (const auto& [pair, sides] : messages)
      if (sides[0] && sides[1]) {
        const std::vector<Member> both{*sides[0], *sides[1]};
        base::require(both[0].issues.size() == both[1].issues.size(), "[plan] group '", std::get<0>(pair).first,
                      "': rank ", both[0].rank->record().rank, " sends ", both[0].issues.size(), " messages to rank ",
                      both[1].rank->record().rank, ", which receives ", both[1].issues.size());
        join(both);
      }
  }

 private:
  void join(const std::vector<Member>& members) {
    for (size_t k = 0; k < members.front().issues.size(); ++k, ++collectives_)
      for (const Member& m : members) jobs_[m.rank->job_of(m.issues[k])].collective = collectives_;
  }

  std::vector<Job>& jobs_;
  int collectives_ = 0;
};

constexpr double gives_way = 1e-3;  // speed of traffic while a higher class is in flight

double speed_of(int queue, uint64_t others, const StepContention& c) {
  std::array<bool, 2> in_flight{};  // by network
  bool computes = false;
  int sharers = 1;
  bool higher = false;
  for (; others != 0; others &= others - 1) {
    const int other = std::countr_zero(others);
    if (is_lane(other)) {
      computes = computes || other != static_cast<int>(device::Lane::copy);
      continue;
    }
    in_flight[base::ordinal(network_of(other))] = true;
    if (is_lane(queue) || network_of(other) != network_of(queue)) continue;
    if (!c.priorities || traffic_of(other) == traffic_of(queue))
      ++sharers;
    else
      higher = higher || traffic_of(other) < traffic_of(queue);
  }
  if (queue == static_cast<int>(device::Lane::copy)) return 1;
  if (is_lane(queue)) return (in_flight[0] ? c.compute_beside_intra : 1) * (in_flight[1] ? c.compute_beside_inter : 1);
  const double beside = !computes                             ? 1
                        : network_of(queue) == Network::intra ? c.intra_beside_compute
                                                              : c.inter_beside_compute;
  return (higher ? gives_way : 1.0 / sharers) * beside;
}

// Divides the time of a rank into busy time, exposed communication and idle time.
void account(SimulatedRank& rank, const RankJobs& from, std::span<const Job> jobs, std::span<const Interval> times,
             int first_queue, double seconds) {
  struct Change {
    double time;
    int traffic;  // class of traffic; -1: a lane
    int by;
  };
  std::vector<Change> changes{{seconds, -1, 0}};
  int last = -1;
  for (size_t i = 0; i < from.record().issues.size(); ++i) {
    const int job = from.job_of(i);
    if (std::exchange(last, job) == job || times[job].end <= times[job].begin) continue;
    const int queue = jobs[job].queue - first_queue;
    const int traffic = is_lane(queue) ? -1 : traffic_of(queue);
    changes.push_back({times[job].begin, traffic, 1});
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

SimulatedStep simulate_step(std::span<const StepRecord> records, const std::vector<int>& node_of_rank,
                            const PriceOfIssue& price, const StepContention& contention) {
  std::vector<RankJobs> ranks;
  std::vector<Job> jobs;
  ranks.reserve(records.size());
  for (const StepRecord& record : records) {
    ranks.emplace_back(record, node_of_rank, price);
    ranks.back().add_to(jobs, static_cast<int>(ranks.size() - 1) * queues_a_rank);
  }
  Matches(jobs).match(ranks);
  const schedule::JobTimes times = schedule::run_jobs(
      jobs, {.sets = static_cast<int>(ranks.size()), .beside = queues_a_rank, .speed = [&](int queue, size_t others) {
               return speed_of(queue, others, contention);
             }});
  if (!times.stuck.empty()) {
    std::string where;
    for (const RankJobs& r : ranks)
      for (size_t i = 0; i < r.record().issues.size(); ++i)
        if (std::ranges::find(times.stuck, r.job_of(i)) != times.stuck.end())
          where += base::cat(where.empty() ? "" : ", ", "rank ", r.record().rank, " at ", r.record().issues[i].family,
                             ".", r.record().issues[i].name, " in ", r.record().where(r.record().issues[i]));
    base::fail_invariant(base::cat("[plan] ranks of the simulated step wait for each other forever: ", where));
  }

  SimulatedStep step;
  for (const Interval& t : times.jobs) step.seconds = std::max(step.seconds, t.end);
  for (size_t r = 0; r < ranks.size(); ++r) {
    SimulatedRank rank{.rank = records[r].rank, .times = {}};
    for (size_t i = 0; i < records[r].issues.size(); ++i) rank.times.push_back(times.jobs[ranks[r].job_of(i)]);
    account(rank, ranks[r], jobs, times.jobs, static_cast<int>(r) * queues_a_rank, step.seconds);
    step.ranks.push_back(std::move(rank));
  }
  return step;
}

}  // namespace hexad::plan
