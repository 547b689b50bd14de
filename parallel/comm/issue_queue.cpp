#include "parallel/comm/issue_queue.h"

#include <algorithm>

#include "framework/base/ordinal.h"
#include "parallel/comm/signature.h"

namespace hexad::comm {

void IssueQueue::post(RequestPtr request) {
  request->number = posted_[request->channel]++;
  request->arrival = arrivals_++;
  if (request->traffic != TrafficClass::control)
    used_.insert({request->link, request->traffic, request->channel.urgency});
  queues_[request->channel].requests.push_back(std::move(request));
}

void IssueQueue::make_ready(const RequestPtr& request) {
  request->ready = true;
  Queue& queue = queues_.at(request->channel);
  if (queue.requests.front() == request) queue.quiet = 0;  // until now, the operation waited only for work of this rank
}

void IssueQueue::boost(const Request& request) {
  const auto queue = queues_.find(request.channel);
  if (queue == queues_.end()) return;
  const auto& requests = queue->second.requests;
  const auto last = std::find_if(requests.begin(), requests.end(), [&](const auto& r) { return r.get() == &request; });
  if (last != requests.end()) std::for_each(requests.begin(), last + 1, [](const auto& r) { r->boosted = true; });
}

void IssueQueue::boost_all() {
  for (auto& [channel, queue] : queues_)
    for (const RequestPtr& request : queue.requests) request->boosted = true;
}

IssueQueue::Priority IssueQueue::priority_of(TrafficClass traffic, Urgency urgency) const {
  return {priorities_.of_class[base::ordinal(traffic)], priorities_.by_need ? urgency : Urgency::ordinary};
}

bool IssueQueue::low(const Queue& queue) const {
  const Request& first = *queue.requests.front();
  if (boosted(queue)) return false;
  return std::any_of(used_.begin(), used_.end(), [&](const auto& use) {
    const auto [link, traffic, urgency] = use;
    return link == first.link && priority_of(traffic, urgency) < priority_of(first);
  });
}

bool IssueQueue::withheld(const Queue& queue) const {
  const Request& first = *queue.requests.front();
  if (boosted(queue)) return false;
  return std::any_of(queues_.begin(), queues_.end(), [&](const auto& other) {
    const auto& requests = other.second.requests;
    return requests.front()->link == first.link && priority_of(*requests.front()) < priority_of(first) &&
           std::any_of(requests.begin(), requests.end(), [](const RequestPtr& r) { return r->matched(); });
  });
}

IssueQueue::Start IssueQueue::startable(Queue& queue) const {
  for (const RequestPtr& request : queue.requests) {
    Request& r = *request;
    if (r.planned && r.started == r.plan.rounds.size()) continue;
    if (!r.ready) return {};
    if (!r.planned) {
      const int size = static_cast<int>(r.members->size());
      r.plan = make_message_plan_(r.operation, r.rank, size, r.round_bytes);
      if (r.checked) check_first(r.plan, r.operation, r.group, r.number, r.rank, size);
      r.finished.assign(r.plan.rounds.size(), false);
      r.planned = true;
    }
    const bool allowed = r.plan.rounds[r.started].after < static_cast<int>(r.finished_prefix);
    return allowed ? Start{request, r.started} : Start{};
  }
  return {};
}

const IssueQueue::Candidate* IssueQueue::choose(const std::vector<Candidate>& sorted) const {
  for (const Candidate& c : sorted)
    if (c.queue->rounds_in_flight == 0) return &c;
  for (const bool low_ones : {false, true})
    for (const Link link : {Link::network, Link::node}) {
      bool sends_wait = false, receives_wait = false;
      for (const Candidate& c : sorted) {
        if (c.low != low_ones || c.start.request->link != link) continue;
        const Volume wanted = c.start.request->plan.rounds[c.start.round].volume(), over = excess(c);
        const bool waits = (wanted.sent > 0 && (sends_wait || over.sent > 0)) ||
                           (wanted.received > 0 && (receives_wait || over.received > 0));
        if (!waits) return &c;
        // Later candidates must also wait. Otherwise, smaller rounds of a lower class could keep the window full
        // forever. Exception: later candidates need not wait for an operation to which no rank has responded yet.
        if (!answered(*c.queue)) continue;
        sends_wait |= wanted.sent > 0;
        receives_wait |= wanted.received > 0;
      }
    }
  return nullptr;
}

Volume IssueQueue::excess(const Candidate& c) const {
  const Request& r = *c.start.request;
  Volume volume = r.plan.rounds[c.start.round].volume();
  for (const auto& [channel, queue] : queues_) {
    const Request& first = *queue.requests.front();
    // Two kinds of rounds do not count against the window of a lower priority: first rounds to which no rank has
    // responded yet, and rounds of an even lower priority. Peers may delay rounds of lower priority until traffic of
    // higher priority ends.
    const bool moves = answered(queue) || queue.rounds_in_flight > 1;
    const bool takes_room =
        first.link == r.link && low(queue) == c.low && (!c.low || (moves && priority_of(first) <= priority_of(r)));
    const bool counts = &queue == c.queue || takes_room;
    if (counts) volume += queue.in_flight;
  }
  const int64_t window = c.low ? limits_.low_window_bytes : limits_.window_bytes;
  return volume -= {window, window};
}

IssueQueue::Start IssueQueue::next() {
  constexpr Priority before_all{-1, Urgency::urgent};
  std::vector<Candidate> candidates;
  for (auto& [channel, queue] : queues_) {
    const bool gives_way = low(queue);
    // A queue of low priority starts only one round until its peers respond. More rounds would only fill the window of
    // its own priority and the windows of lower priorities.
    if (withheld(queue) || (gives_way && queue.rounds_in_flight > 0 && !answered(queue))) continue;
    Start start = startable(queue);
    if (!start.request) continue;
    const Request& first = *queue.requests.front();
    candidates.push_back(
        {{boosted(queue) ? before_all : priority_of(first), first.arrival}, gives_way, &queue, std::move(start)});
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.order < b.order; });
  const Candidate* chosen = choose(candidates);
  if (!chosen) return {};
  Request& r = *chosen->start.request;
  chosen->queue->in_flight += r.plan.rounds[r.started++].volume();
  ++chosen->queue->rounds_in_flight;
  return chosen->start;
}

void IssueQueue::finish(const RequestPtr& request, size_t round) {
  Request& r = *request;
  const Round& finished = r.plan.rounds[round];
  if (finished.finish) finished.finish();
  // A peer has begun the operation if its message has arrived. In a round without receives, a peer has begun the
  // operation if it has taken the message of this rank.
  if (!r.matched())
    for (const Transfer& t : finished.receives.empty() ? finished.sends : finished.receives) r.heard.insert(t.peer);
  r.finished[round] = true;
  ++r.ended;
  while (r.finished_prefix < r.finished.size() && r.finished[r.finished_prefix]) ++r.finished_prefix;
  const auto queue = queues_.find(r.channel);
  --queue->second.rounds_in_flight;
  queue->second.in_flight -= finished.volume();
  queue->second.quiet = 0;
  if (!r.done()) return;
  std::erase(queue->second.requests, request);
  if (queue->second.requests.empty()) queues_.erase(queue);
}

RequestPtr IssueQueue::overdue(int limit) {
  RequestPtr late;
  for (auto& [channel, queue] : queues_) {
    const RequestPtr& first = queue.requests.front();
    queue.quiet = (first->ready || first->boosted) && !withheld(queue) ? queue.quiet + 1 : 0;
    if (!late && queue.quiet > limit) late = first;
  }
  return late;
}

std::vector<std::pair<RequestPtr, int>> IssueQueue::waited_for() const {
  std::vector<std::pair<RequestPtr, int>> list;
  const auto waited = [](const auto& entry) { return entry.second.requests.front()->boosted; };
  // A channel without waiting threads may delay a channel for which a thread waits, if priorities are not by need.
  const bool all = !priorities_.by_need && std::any_of(queues_.begin(), queues_.end(), waited);
  for (const auto& entry : queues_)
    if (all || waited(entry)) list.emplace_back(entry.second.requests.front(), entry.second.quiet);
  return list;
}

void IssueQueue::reset_overdue(int quiet) {
  for (auto& [channel, queue] : queues_) queue.quiet = std::min(queue.quiet, quiet);
}

std::vector<RequestPtr> IssueQueue::drain() {
  std::vector<RequestPtr> all;
  for (auto& [channel, queue] : queues_) all.insert(all.end(), queue.requests.begin(), queue.requests.end());
  queues_.clear();
  return all;
}

}  // namespace hexad::comm
