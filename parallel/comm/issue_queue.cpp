#include "parallel/comm/issue_queue.h"

#include <algorithm>

#include "parallel/comm/signature.h"

namespace hexad::comm {
namespace {

// Also those that an all-to-all has no rows for: others of its ranks may have to wait for them.
std::vector<int> others_of(const Request& r) {
  if (r.operation.is_point_to_point()) return {r.operation.peer};
  std::vector<int> others;
  for (int rank = 0; rank < static_cast<int>(r.members->size()); ++rank)
    if (rank != r.rank) others.push_back(rank);
  return others;
}

}  // namespace

void IssueQueue::post(RequestPtr request) {
  request->number = posted_[request->channel]++;
  request->arrival = arrivals_++;
  if (request->traffic != TrafficClass::control)
    used_.insert({request->link, request->traffic, request->channel.urgency});
  lines_[request->channel].requests.push_back(std::move(request));
}

void IssueQueue::make_ready(const RequestPtr& request) {
  request->ready = true;
  Line& line = lines_.at(request->channel);
  if (line.requests.front() == request) line.quiet = 0;  // what was waited for until now was this rank's own work
}

void IssueQueue::lift(const Request& request) {
  const auto line = lines_.find(request.channel);
  if (line == lines_.end()) return;
  const auto& requests = line->second.requests;
  const auto last = std::find_if(requests.begin(), requests.end(), [&](const auto& r) { return r.get() == &request; });
  if (last != requests.end()) std::for_each(requests.begin(), last + 1, [](const auto& r) { r->lifted = true; });
}

void IssueQueue::lift_all() {
  for (auto& [channel, line] : lines_)
    for (const RequestPtr& request : line.requests) request->lifted = true;
}

IssueQueue::Place IssueQueue::place_of(TrafficClass traffic, Urgency urgency) const {
  return {priorities_.of_class[static_cast<size_t>(traffic)], priorities_.by_need ? urgency : Urgency::ordinary};
}

bool IssueQueue::low(const Line& line) const {
  const Request& first = *line.requests.front();
  if (lifted(line)) return false;
  return std::any_of(used_.begin(), used_.end(), [&](const auto& use) {
    const auto [link, traffic, urgency] = use;
    return link == first.link && place_of(traffic, urgency) < place_of(first);
  });
}

bool IssueQueue::withheld(const Line& line) const {
  const Request& first = *line.requests.front();
  if (lifted(line)) return false;
  return std::any_of(lines_.begin(), lines_.end(), [&](const auto& other) {
    const auto& requests = other.second.requests;
    return requests.front()->link == first.link && place_of(*requests.front()) < place_of(first) &&
           std::any_of(requests.begin(), requests.end(), [](const RequestPtr& r) { return r->met(); });
  });
}

IssueQueue::Start IssueQueue::startable(Line& line) const {
  for (const RequestPtr& request : line.requests) {
    Request& r = *request;
    if (r.planned && r.started == r.plan.rounds.size()) continue;
    if (!r.ready) return {};
    if (!r.planned) {
      const int size = static_cast<int>(r.members->size());
      r.plan = make_plan_(r.operation, r.rank, size, r.round_bytes);
      if (r.checked) check_first(r.plan, r.operation, r.group, r.number, r.rank, size);
      r.finished.assign(r.plan.rounds.size(), false);
      r.unheard = others_of(r);
      r.planned = true;
    }
    const bool allowed = r.plan.rounds[r.started].after < static_cast<int>(r.finished_prefix);
    return allowed ? Start{request, r.started} : Start{};
  }
  return {};
}

const IssueQueue::Candidate* IssueQueue::choose(const std::vector<Candidate>& sorted) const {
  for (const Candidate& c : sorted)
    if (c.line->rounds_in_flight == 0) return &c;
  for (const bool low_ones : {false, true})
    for (const Link link : {Link::network, Link::node}) {
      bool sends_wait = false, receives_wait = false;
      for (const Candidate& c : sorted) {
        if (c.low != low_ones || c.start.request->link != link) continue;
        const Volume wanted = c.start.request->plan.rounds[c.start.round].volume(), over = excess(c);
        const bool waits = (wanted.sent > 0 && (sends_wait || over.sent > 0)) ||
                           (wanted.received > 0 && (receives_wait || over.received > 0));
        if (!waits) return &c;
        // What comes behind it must wait, or smaller rounds of a lower class would keep the window full for ever; but
        // not for an operation that nobody has answered.
        if (!answered(*c.line)) continue;
        sends_wait |= wanted.sent > 0;
        receives_wait |= wanted.received > 0;
      }
    }
  return nullptr;
}

Volume IssueQueue::excess(const Candidate& c) const {
  const Request& r = *c.start.request;
  Volume volume = r.plan.rounds[c.start.round].volume();
  for (const auto& [channel, line] : lines_) {
    const Request& first = *line.requests.front();
    // Of what gives way, a first round that nobody has answered takes no room from others, and a lower place none from
    // a higher one: it may wait for rounds that its peers hold back until the higher one ends.
    const bool moves = answered(line) || line.rounds_in_flight > 1;
    const bool takes_room =
        first.link == r.link && low(line) == c.low && (!c.low || (moves && place_of(first) <= place_of(r)));
    const bool counts = &line == c.line || takes_room;
    if (counts) volume += line.in_flight;
  }
  const int64_t window = c.low ? limits_.low_window_bytes : limits_.window_bytes;
  return volume -= {window, window};
}

IssueQueue::Start IssueQueue::next() {
  constexpr Place before_all{-1, Urgency::urgent};
  std::vector<Candidate> candidates;
  for (auto& [channel, line] : lines_) {
    const bool gives_way = low(line);
    // One round tells whether anybody answers; more would only fill what a higher class needs.
    if (withheld(line) || (gives_way && line.rounds_in_flight > 0 && !answered(line))) continue;
    Start start = startable(line);
    if (!start.request) continue;
    const Request& first = *line.requests.front();
    candidates.push_back(
        {{lifted(line) ? before_all : place_of(first), first.arrival}, gives_way, &line, std::move(start)});
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.priority < b.priority; });
  const Candidate* chosen = choose(candidates);
  if (!chosen) return {};
  Request& r = *chosen->start.request;
  chosen->line->in_flight += r.plan.rounds[r.started++].volume();
  ++chosen->line->rounds_in_flight;
  return chosen->start;
}

void IssueQueue::finish(const RequestPtr& request, size_t round) {
  Request& r = *request;
  const Round& finished = r.plan.rounds[round];
  if (finished.finish) finished.finish();
  // Whoever sent has begun it; where nothing came back, the sends were taken.
  for (const Transfer& t : finished.receives.empty() ? finished.sends : finished.receives)
    std::erase(r.unheard, t.peer);
  r.finished[round] = true;
  ++r.ended;
  while (r.finished_prefix < r.finished.size() && r.finished[r.finished_prefix]) ++r.finished_prefix;
  const auto line = lines_.find(r.channel);
  --line->second.rounds_in_flight;
  line->second.in_flight -= finished.volume();
  line->second.quiet = 0;
  if (!r.done()) return;
  std::erase(line->second.requests, request);
  if (line->second.requests.empty()) lines_.erase(line);
}

RequestPtr IssueQueue::overdue(int limit) {
  for (auto& [channel, line] : lines_) {
    const RequestPtr& first = line.requests.front();
    line.quiet = (first->ready || first->lifted) && !withheld(line) ? line.quiet + 1 : 0;
    if (line.quiet > limit) return first;
  }
  return nullptr;
}

std::vector<std::pair<RequestPtr, int>> IssueQueue::waited_for() const {
  std::vector<std::pair<RequestPtr, int>> list;
  const auto waited = [](const auto& entry) { return entry.second.requests.front()->lifted; };
  // Without priorities by need a channel that nobody waits for may hold back one that somebody waits for.
  const bool all = !priorities_.by_need && std::any_of(lines_.begin(), lines_.end(), waited);
  for (const auto& entry : lines_)
    if (all || waited(entry)) list.emplace_back(entry.second.requests.front(), entry.second.quiet);
  return list;
}

void IssueQueue::forgive(int quiet) {
  for (auto& [channel, line] : lines_) line.quiet = std::min(line.quiet, quiet);
}

std::vector<RequestPtr> IssueQueue::drain() {
  std::vector<RequestPtr> all;
  for (auto& [channel, line] : lines_) all.insert(all.end(), line.requests.begin(), line.requests.end());
  lines_.clear();
  return all;
}

}  // namespace hexad::comm
