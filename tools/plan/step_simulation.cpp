#include "tools/plan/step_simulation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
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

bool is_message(const Issue& issue) { return issue.name == "send" || issue.name == "receive"; }

bool is_lane(int queue) { return queue < device::lane_count; }

// Numbers the queues of a rank, in the same way on all ranks: first its lanes, then the queues of communication. On
// each network, a class of traffic has one queue for collectives and one for each direction of messages. It has
// additional queues for the messages to and from each simulated peer, because messages of different peers overtake each
// other.
class Queues {
 public:
  struct Traffic {
    int traffic;
    Network network;
    int lane;  // 0: collectives; above 0: messages, by peer and direction
    auto operator<=>(const Traffic&) const = default;
  };
  int number_of(const Traffic& traffic) {
    const auto at = std::ranges::find(traffic_, traffic);
    const auto number = device::lane_count + static_cast<int>(at - traffic_.begin());
    base::require(number < most, "[plan] a simulated step has more than ", most, " queues per rank");
    if (at == traffic_.end()) traffic_.push_back(traffic);
    return number;
  }
  const Traffic& traffic(int queue) const { return traffic_[queue - device::lane_count]; }

  static constexpr int most = 64;  // a 64-bit set stores the active queues of a rank

 private:
  std::vector<Traffic> traffic_;
};

// Jobs of the operations in one rank's record.
class RankJobs {
 public:
  RankJobs(const StepRecord& record, const std::vector<int>& nodes, const PriceOfIssue& price)
      : record_(record),
        nodes_(nodes),
        price_(price),
        networks_(record.groups.size()),
        awaited_(record.issues.size()),
        job_of_(record.issues.size()),
        seconds_(record.issues.size()) {
    for (const Issue& issue : record.issues)
      for (const int32_t before : issue.after) awaited_[before] = true;
  }

  const StepRecord& record() const { return record_; }
  int job_of(size_t issue) const { return job_of_[issue]; }

  // Appends the jobs, in queues starting at `first_queue`. `simulated` lists the ranks of all records.
  void add_to(std::vector<Job>& jobs, int first_queue, Queues& queues, const std::vector<int>& simulated) {
    for (size_t i = 0; i < record_.issues.size(); ++i) {
      const Issue& issue = record_.issues[i];
      seconds_[i] = issue.name == "receive" ? 0 : price_(record_, issue);
      if (const auto job = job_to_join(i)) {
        jobs[*job].seconds += seconds_[i];
        job_of_[i] = *job;
        continue;
      }
      job_of_[i] = static_cast<int>(jobs.size());
      std::vector<int> after;
      for (const int32_t before : issue.after) after.push_back(job_of_[before]);
      jobs.push_back({first_queue + queue_of(issue, queues, simulated), seconds_[i], std::move(after), Job::alone});
    }
  }

  // Returns the time of each operation. The time of a job is divided among its operations in proportion to their
  // prices.
  std::vector<Interval> times_of(std::span<const Job> jobs, std::span<const Interval> times) const {
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

 private:
  // Returns the job that operation `i` joins, if any. Consecutive operations of a lane form one job if no other queue
  // waits for the first operation, and the second operation waits for no other queue.
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

  int queue_of(const Issue& issue, Queues& queues, const std::vector<int>& simulated) {
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

  Network network_of(int group) {
    std::optional<Network>& network = networks_[group];
    if (!network) {
      const std::vector<int>& ranks = record_.groups[group].ranks;
      const bool inside =
          std::ranges::all_of(ranks, [&](int r) { return network_between(r, ranks.front()) == Network::intra; });
      network = inside ? Network::intra : Network::inter;
    }
    return *network;
  }

  // Returns the number of a simulated rank with which this rank exchanges messages. Assigns a new number to a new peer.
  int number_of_peer(int peer) {
    const auto at = std::ranges::find(peers_, peer);
    const auto number = static_cast<int>(at - peers_.begin());
    if (at == peers_.end()) peers_.push_back(peer);
    return number;
  }

  const StepRecord& record_;
  const std::vector<int>& nodes_;
  const PriceOfIssue& price_;
  std::vector<std::optional<Network>> networks_;  // by group
  std::vector<int> peers_;
  std::vector<char> awaited_;  // by issue: true if communication or another lane waits for it
  std::vector<int> job_of_;
  std::vector<double> seconds_;                                   // price of each operation
  std::array<std::optional<size_t>, device::lane_count> last_{};  // latest operation of each lane
};

using Group = device::IssuedGroup;

// Order of groups that gives a group the same position in the records of all its members.
struct ByNameAndRanks {
  bool operator()(const Group* a, const Group* b) const {
    return std::tie(a->name, a->ranks) < std::tie(b->name, b->ranks);
  }
};

// Member of a group: its rank, and the indices of the operations that the rank issues in the group.
struct Member {
  const RankJobs* rank;
  std::vector<size_t> issues;
};

void require_alike(const Group& group, const Member& a, const Member& b) {
  const auto name = [](const Member& m, size_t k) { return m.rank->record().issues[m.issues[k]].name; };
  for (size_t k = 0; k < std::max(a.issues.size(), b.issues.size()); ++k) {
    const bool both = k < std::min(a.issues.size(), b.issues.size());
    base::require(both && name(a, k) == name(b, k), "[plan] group '", group.name, "': operation ", k, " of rank ",
                  a.rank->record().rank, " is ", k < a.issues.size() ? name(a, k) : "missing", ", that of rank ",
                  b.rank->record().rank, " is ", k < b.issues.size() ? name(b, k) : "missing",
                  "; expected equal operations");
  }
}

// Gives jobs that end together the number of their collective.
class Matches {
 public:
  explicit Matches(std::vector<Job>& jobs) : jobs_(jobs) {}

  void match(std::span<const RankJobs> ranks) {
    std::set<const Group*, ByNameAndRanks> groups;
    std::map<const Group*, std::vector<Member>> collectives;
    // Sending and receiving member, by group, sender and receiver.
    std::map<std::tuple<const Group*, int, int>, std::array<std::optional<Member>, 2>> messages;
    for (const RankJobs& r : ranks) {
      std::vector<const Group*> group_of;
      for (const Group& g : r.record().groups) group_of.push_back(*groups.insert(&g).first);
      for (size_t i = 0; i < r.record().issues.size(); ++i) {
        const Issue& issue = r.record().issues[i];
        if (!issue.communicates()) continue;
        const auto& work = std::get<CommunicationWork>(issue.work);
        const Group& g = r.record().groups[work.group];
        const Group* group = group_of[work.group];
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
    }
    for (auto& [group, members] : collectives) {
      for (const RankJobs& r : ranks)  // adds members without collectives
        if (std::ranges::find(group->ranks, r.record().rank) != group->ranks.end() &&
            std::ranges::find(members, &r, &Member::rank) == members.end())
          members.push_back({&r, {}});
      for (const Member& m : members) require_alike(*group, members.front(), m);
      if (members.size() > 1) join(members);
    }
    for (const auto& [pair, sides] : messages) {
      if (!sides[1]) continue;  // the receiver is not simulated
      if (sides[0]) {
        base::require(sides[0]->issues.size() == sides[1]->issues.size(), "[plan] group '", std::get<0>(pair)->name,
                      "': rank ", sides[0]->rank->record().rank, " sends ", sides[0]->issues.size(),
                      " messages to rank ", sides[1]->rank->record().rank, ", which receives ", sides[1]->issues.size(),
                      "; expected equal numbers");
        join({*sides[0], *sides[1]});
        continue;
      }
      const auto& [group, from, to] = pair;
      const int size = static_cast<int>(group->ranks.size());
      const auto mirrored = messages.find({group, to, (2 * to - from + size) % size});
      receive_alone(*sides[1], mirrored == messages.end() ? std::nullopt : mirrored->second[0]);
    }
  }

  int collectives() const { return collectives_; }

 private:
  // Sets the ends of receives from a rank that is not simulated. Message k ends with the k-th message that this rank
  // sends in the mirrored direction. It ends immediately if this rank waits for it before it sends that message.
  void receive_alone(const Member& received, const std::optional<Member>& sent) {
    const StepRecord& record = received.rank->record();
    for (size_t k = 0; k < received.issues.size(); ++k) {
      const size_t receive = received.issues[k];
      Job& job = jobs_[received.rank->job_of(receive)];
      job.queue = Job::no_queue;
      if (!sent || sent->issues.size() != received.issues.size()) continue;
      const size_t send = sent->issues[k];
      bool waited_before = false;
      for (size_t i = receive + 1; i <= send && !waited_before; ++i)
        waited_before =
            std::ranges::find(record.issues[i].after, static_cast<int32_t>(receive)) != record.issues[i].after.end();
      if (!waited_before) job.after.push_back(received.rank->job_of(send));
    }
  }

  void join(const std::vector<Member>& members) {
    for (size_t k = 0; k < members.front().issues.size(); ++k, ++collectives_)
      for (const Member& m : members) jobs_[m.rank->job_of(m.issues[k])].collective = collectives_;
  }

  std::vector<Job>& jobs_;
  int collectives_ = 0;
};

constexpr double gives_way =
    1e-3;  // relative speed of a class of traffic while a class with higher priority is in flight

double speed_of_queue(int queue, uint64_t others, const Queues& queues, const StepContention& c) {
  std::array<bool, 2> in_flight{};  // by network
  bool computes = false, copies = false;
  int sharers = 1;
  bool higher = false;
  for (; others != 0; others &= others - 1) {
    const int other = std::countr_zero(others);
    if (is_lane(other)) {
      (other == static_cast<int>(device::Lane::copy) ? copies : computes) = true;
      continue;
    }
    const Queues::Traffic& theirs = queues.traffic(other);
    in_flight[base::ordinal(theirs.network)] = true;
    if (is_lane(queue) || theirs.network != queues.traffic(queue).network) continue;
    const int own = c.priority[queues.traffic(queue).traffic], their = c.priority[theirs.traffic];
    sharers += their == own;
    higher = higher || their < own;
  }
  if (queue == static_cast<int>(device::Lane::copy)) return 1;
  if (is_lane(queue))
    return (in_flight[0] ? c.compute_beside_intra : 1) * (in_flight[1] ? c.compute_beside_inter : 1) *
           (copies ? c.compute_beside_copy : 1);
  const bool inside = queues.traffic(queue).network == Network::intra;
  const double beside = !computes ? 1 : inside ? c.intra_beside_compute : c.inter_beside_compute;
  return (higher ? gives_way : 1.0 / sharers) * beside;
}

// Returns the cores that a rank needs for `jobs`: one for each thread while kernels run, and one while the copy lane
// runs; SharedCores::waiting while no lane runs.
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

// Divides the time of a rank into computation, exposed communication, and idle time. Communication counts from the time
// at which the last member of its collective has begun, because before that, the rank waits for this member. `begins`
// has this time for each collective.
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
    const int traffic = is_lane(queue) ? -1 : queues.traffic(queue).traffic;
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

SimulatedStep simulate_step(std::span<const StepRecord> records, const std::vector<int>& node_of_rank,
                            const PriceOfIssue& price, const StepContention& contention) {
  std::vector<RankJobs> ranks;
  std::vector<Job> jobs;
  std::vector<int> simulated, nodes;
  Queues queues;
  ranks.reserve(records.size());
  for (const StepRecord& record : records) {
    simulated.push_back(record.rank);
    if (contention.cores) nodes.push_back(node_of_rank[record.rank]);
  }
  for (const StepRecord& record : records) {
    ranks.emplace_back(record, node_of_rank, price);
    ranks.back().add_to(jobs, static_cast<int>(ranks.size() - 1) * Queues::most, queues, simulated);
  }
  Matches matches(jobs);
  matches.match(ranks);
  const schedule::JobTimes times = schedule::run_jobs(
      jobs, {.sets = static_cast<int>(ranks.size()),
             .beside = Queues::most,
             .speed = [&](int queue, size_t others) { return speed_of_queue(queue, others, queues, contention); },
             .sharing = schedule::sharing_of(contention.cores, std::move(nodes),
                                             needs_of(jobs, contention.cores.value_or(schedule::SharedCores{})))});
  if (!times.stuck.empty()) {
    constexpr int named = 6;
    std::string where;
    int count = 0;
    for (const RankJobs& r : ranks)
      for (size_t i = 0; i < r.record().issues.size(); ++i)
        if (std::ranges::find(times.stuck, r.job_of(i)) != times.stuck.end() && count++ < named)
          where += base::cat(where.empty() ? "" : ", ", "rank ", r.record().rank, " at ", r.record().issues[i].family,
                             ".", r.record().issues[i].name, " in ", r.record().where(r.record().issues[i]));
    base::fail_invariant(base::cat("[plan] ranks of the simulated step wait for each other forever: ", where));
  }

  SimulatedStep step;
  std::vector<double> begins(matches.collectives(), 0);
  for (size_t j = 0; j < jobs.size(); ++j) {
    step.seconds = std::max(step.seconds, times.jobs[j].end);
    if (jobs[j].collective != Job::alone)
      begins[jobs[j].collective] = std::max(begins[jobs[j].collective], times.jobs[j].begin);
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    SimulatedRank rank{.rank = records[r].rank, .times = ranks[r].times_of(jobs, times.jobs)};
    account(rank, ranks[r], jobs, times.jobs, begins, queues, static_cast<int>(r) * Queues::most, step.seconds);
    step.ranks.push_back(std::move(rank));
  }
  return step;
}

}  // namespace hexad::plan
