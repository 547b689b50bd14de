#include "framework/device/meta/issue_log.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"
#include "framework/device/span_log.h"

namespace hexad::device {
namespace {

// Sorts `waits`, oldest operation first, and removes redundant operations: duplicates and, for each lane, all
// non-communication operations except the last. The last operation suffices, because the non-communication operations
// of a lane end in order. The first `kept` entries are the result of an earlier call.
void keep_last_of_each_lane(std::vector<int32_t>& waits, const std::vector<Issue>& issues, size_t kept = 0) {
  if (waits.size() == kept || waits.size() < 2) return;
  const auto added = waits.begin() + static_cast<std::ptrdiff_t>(kept);
  if (!std::ranges::is_sorted(added, waits.end())) std::sort(added, waits.end());
  if (kept > 0 && added[0] <= added[-1]) std::inplace_merge(waits.begin(), added, waits.end());
  waits.erase(std::ranges::unique(waits).begin(), waits.end());
  std::array<int32_t, lane_count> last{};
  for (const int32_t i : waits)
    if (!issues[i].communicates()) last[base::ordinal(issues[i].lane)] = i;
  std::erase_if(waits,
                [&](int32_t i) { return !issues[i].communicates() && last[base::ordinal(issues[i].lane)] != i; });
}

}  // namespace

void IssueMark::wait() const { log_.wait_on_host(*this); }

double IssueMark::passed_at() const {
  base::fail_invariant(
      "[meta device] passed_at() was called for a mark that has no time, because nothing runs; expected a mark for "
      "which timed() is true");
}

int32_t IssueLog::add(std::string_view family, std::string_view name, Lane lane, Work work) {
  if (paused_) return -1;
  if (part_) record_addition(family, name, lane, work);
  Queue& from = lanes_[base::ordinal(queue(lane))];
  if (!has_thread(lane)) {
    from.waits.insert(from.waits.end(), host_waits_.begin() + static_cast<std::ptrdiff_t>(from.host_waits),
                      host_waits_.end());
    from.host_waits = host_waits_.size();
  }
  // Communication does not clear the waits of its queue. Without this call, the waits of a queue that only communicates
  // would grow without limit.
  keep_last_of_each_lane(from.waits, issues_, from.issued_waits);
  Issue issue{family, name, queue(lane), std::move(work), innermost(), from.waits};
  if (has_thread(lane)) {
    // The issuing thread appends this operation once its own earlier operations and waits have ended. This operation
    // must therefore also follow these operations and waits.
    const Queue& issuer = lanes_[base::ordinal(Lane::compute)];
    issue.after.insert(issue.after.end(), issuer.waits.begin(), issuer.waits.end());
    issue.after.insert(issue.after.end(), host_waits_.begin() + static_cast<std::ptrdiff_t>(issuer.host_waits),
                       host_waits_.end());
    if (issuer.last >= 0) issue.after.push_back(issuer.last);
    keep_last_of_each_lane(issue.after, issues_);
  }
  const bool communicates = issue.communicates();
  if (communicates && from.last >= 0) {
    issue.after.push_back(from.last);
    keep_last_of_each_lane(issue.after, issues_, issue.after.size() - 1);
  }
  const auto number = static_cast<int32_t>(issues_.size());
  issues_.push_back(std::move(issue));
  if (communicates)
    from.last_communication = number;
  else
    from.last = number, from.waits.clear();
  from.issued_waits = from.waits.size();
  return number;
}

// Returns the operations that precede a mark made by mark_of(lane).
std::vector<int32_t> IssueLog::before_mark(Lane lane) const {
  const Queue& of = lanes_[base::ordinal(queue(lane))];
  // A mark that includes the lane's last communication need not list the operations that this communication follows.
  const auto later = of.waits.begin() + static_cast<std::ptrdiff_t>(of.issued_waits);
  const bool awaited = std::find(later, of.waits.end(), of.last_communication) != of.waits.end();
  std::vector<int32_t> issues(awaited ? later : of.waits.begin(), of.waits.end());
  if (of.last >= 0) issues.push_back(of.last);
  return issues;
}

std::shared_ptr<const IssueMark> IssueLog::new_mark(std::vector<int32_t> issues) {
  return std::make_shared<IssueMark>(*this, marks_++, std::move(issues));
}

std::shared_ptr<const IssueMark> IssueLog::mark(int32_t issue) {
  if (part_) record_mark(issue);
  return new_mark({issue});
}

// While a part is recorded, returns a mark even if no operation precedes the mark. The part must contain the waits for
// the mark, because operations may precede the mark in a repetition of the part.
std::shared_ptr<const IssueMark> IssueLog::mark_of(Lane lane) {
  if (part_) record_mark(lane);
  std::vector<int32_t> issues = before_mark(lane);
  if (issues.empty() && !part_) return nullptr;
  return new_mark(std::move(issues));
}

int32_t IssueLog::innermost() const {
  if (in_span_) return *in_span_;
  return spans_ ? spans_->innermost() : -1;
}

int IssueLog::add_group(IssuedGroup group) {
  groups_.push_back(std::move(group));
  return static_cast<int>(groups_.size()) - 1;
}

void IssueLog::wait(Lane lane, int32_t issue) {
  if (issue < 0 || runs_on_host(lane)) return wait_on_host(issue);
  if (!issues_[issue].communicates() && issues_[issue].lane == lane) return;
  Queue& of = lanes_[base::ordinal(lane)];
  of.waits.push_back(issue);
  if (of.waits.size() > of.max_waits) shorten(of);
}

// Removes redundant entries that were added after the queue's last operation. Without this call, the waits of two
// queues that wait for each other's marks, without operations in between, would double with each mark.
void IssueLog::shorten(Queue& of) const {
  const auto later = of.waits.begin() + static_cast<std::ptrdiff_t>(of.issued_waits);
  std::vector<int32_t> kept(later, of.waits.end());
  keep_last_of_each_lane(kept, issues_);
  of.waits.erase(std::ranges::copy(kept, later).out, of.waits.end());
  of.max_waits = std::max(of.max_waits, 2 * of.waits.size());
}

void IssueLog::wait(Lane lane, const IssueMark& mark) {
  if (part_) record_wait(false, lane, mark);
  for (const int32_t issue : mark.issues()) wait(lane, issue);
}

void IssueLog::wait_on_host(const IssueMark& mark) {
  if (part_) record_wait(true, Lane::compute, mark);
  for (const int32_t issue : mark.issues()) wait_on_host(issue);
}

void IssueLog::wait_on_host(int32_t issue) {
  // The host need not wait for operations that it runs itself.
  if (issue >= 0 && (issues_[issue].communicates() || !runs_on_host(issues_[issue].lane))) host_waits_.push_back(issue);
}

}  // namespace hexad::device
