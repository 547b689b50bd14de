#include "parallel/comm/issue_queue.h"

#include <algorithm>

#include "parallel/comm/signature.h"

namespace hexad::comm {

void IssueQueue::post(RequestPtr request) {
  request->number = posted_[request->channel]++;
  request->arrival = arrivals_++;
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

std::pair<int, int64_t> IssueQueue::priority(const Line& line) const {
  const Request& first = *line.requests.front();
  const bool lifted = first.lifted && priorities_.lift_what_is_waited_for;
  return {lifted ? -1 : priorities_.of_class[static_cast<size_t>(first.traffic)], first.arrival};
}

IssueQueue::Start IssueQueue::startable(Line& line) const {
  for (const RequestPtr& request : line.requests) {
    Request& r = *request;
    if (r.planned && r.started == r.plan.rounds.size()) continue;
    if (!r.ready) return {};
    if (!r.planned) {
      const int size = static_cast<int>(r.members->size());
      r.plan = make_plan(r.operation, r.rank, size, round_bytes_);
      if (r.checked) check_first(r.plan, r.operation, r.group, r.number, r.rank, size);
      r.finished.assign(r.plan.rounds.size(), false);
      r.planned = true;
    }
    const bool allowed = r.plan.rounds[r.started].after < static_cast<int>(r.finished_prefix);
    return allowed ? Start{request, r.started} : Start{};
  }
  return {};
}

IssueQueue::Start IssueQueue::next() {
  struct Candidate {
    std::pair<int, int64_t> priority;
    Line* line;
    Start start;
  };
  std::vector<Candidate> candidates;
  for (auto& [channel, line] : lines_)
    if (Start start = startable(line); start.request) candidates.push_back({priority(line), &line, std::move(start)});
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.priority < b.priority; });

  auto chosen =
      std::find_if(candidates.begin(), candidates.end(), [](const auto& c) { return c.line->rounds_in_flight == 0; });
  if (chosen == candidates.end() && !candidates.empty()) {
    // Only the first in priority: a smaller round of a lower class must not keep the window full for ever.
    const Start& first = candidates.front().start;
    const int64_t bytes = first.request->plan.rounds[first.round].bytes();
    if (bytes_in_flight_ + bytes <= window_bytes_) chosen = candidates.begin();
  }
  if (chosen == candidates.end()) return {};
  Request& r = *chosen->start.request;
  bytes_in_flight_ += r.plan.rounds[r.started++].bytes();
  ++chosen->line->rounds_in_flight;
  return chosen->start;
}

void IssueQueue::finish(const RequestPtr& request, size_t round) {
  Request& r = *request;
  const Round& finished = r.plan.rounds[round];
  if (finished.finish) finished.finish();
  bytes_in_flight_ -= finished.bytes();
  r.finished[round] = true;
  while (r.finished_prefix < r.finished.size() && r.finished[r.finished_prefix]) ++r.finished_prefix;
  const auto line = lines_.find(r.channel);
  --line->second.rounds_in_flight;
  line->second.quiet = 0;
  if (!r.done()) return;
  std::erase(line->second.requests, request);
  if (line->second.requests.empty()) lines_.erase(line);
}

RequestPtr IssueQueue::overdue(int limit) {
  for (auto& [channel, line] : lines_) {
    const RequestPtr& first = line.requests.front();
    line.quiet = first->ready || first->lifted ? line.quiet + 1 : 0;
    if (line.quiet > limit) return first;
  }
  return nullptr;
}

std::vector<RequestPtr> IssueQueue::drain() {
  std::vector<RequestPtr> all;
  for (auto& [channel, line] : lines_) all.insert(all.end(), line.requests.begin(), line.requests.end());
  lines_.clear();
  bytes_in_flight_ = 0;
  return all;
}

}  // namespace hexad::comm
