#include "tools/plan/job_matches.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <variant>

#include "framework/base/counted.h"
#include "framework/base/error.h"

namespace hexad::plan {

using device::CommunicationWork;
using device::Issue;
using schedule::Job;

namespace {

using Group = device::IssuedGroup;

// Order of groups by name and ranks. Each member of a group has its own entry for the group. These entries are
// equivalent in this order.
struct ByNameAndRanks {
  bool operator()(const Group* a, const Group* b) const {
    return std::tie(a->name, a->ranks) < std::tie(b->name, b->ranks);
  }
};

}  // namespace

void JobMatches::require_alike(const Group& group, const Member& a, const Member& b) {
  const auto name = [](const Member& m, size_t k) { return m.rank->record().issues[m.issues[k]].name; };
  for (size_t k = 0; k < std::max(a.issues.size(), b.issues.size()); ++k) {
    const bool both = k < std::min(a.issues.size(), b.issues.size());
    base::require(both && name(a, k) == name(b, k), "[plan] group '", group.name, "': operation ", k, " is ",
                  k < a.issues.size() ? name(a, k) : "missing", " on rank ", a.rank->record().rank, " and ",
                  k < b.issues.size() ? name(b, k) : "missing", " on rank ", b.rank->record().rank,
                  "; expected the same operation on both ranks");
  }
}

void JobMatches::match(std::span<const RankJobs> ranks) {
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
                    "': rank ", sides[0]->rank->record().rank, " sends ",
                    base::counted(std::ssize(sides[0]->issues), "message"), " to rank ", sides[1]->rank->record().rank,
                    ", which receives ", sides[1]->issues.size(), "; expected equal numbers");
      join({*sides[0], *sides[1]});
      continue;
    }
    const auto& [group, from, to] = pair;
    const int size = static_cast<int>(group->ranks.size());
    const auto mirrored = messages.find({group, to, (2 * to - from + size) % size});
    receive_alone(*sides[1], mirrored == messages.end() ? std::nullopt : mirrored->second[0]);
  }
}

void JobMatches::receive_alone(const Member& received, const std::optional<Member>& sent) {
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

void JobMatches::join(const std::vector<Member>& members) {
  for (size_t k = 0; k < members.front().issues.size(); ++k, ++collectives_)
    for (const Member& m : members) jobs_[m.rank->job_of(m.issues[k])].collective = collectives_;
}

}  // namespace hexad::plan
