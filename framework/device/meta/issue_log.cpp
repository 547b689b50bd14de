#include "framework/device/meta/issue_log.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"
#include "framework/device/span_log.h"

namespace hexad::device {

bool IssuesBefore::empty() const {
  return communications_.empty() && std::ranges::all_of(last_, [](int32_t issue) { return issue < 0; });
}

bool IssuesBefore::contains_communication(int32_t issue) const {
  return std::ranges::binary_search(communications_, issue);
}

void IssuesBefore::add(int32_t issue, int8_t kind) {
  if (kind != communication) {
    last_[kind] = std::max(last_[kind], issue);
  } else if (communications_.empty() || communications_.back() < issue) {
    communications_.push_back(issue);
  } else if (const auto at = std::ranges::lower_bound(communications_, issue); *at != issue) {
    communications_.insert(at, issue);
  }
}

void IssuesBefore::add(const IssuesBefore& others) {
  for (size_t lane = 0; lane < last_.size(); ++lane) last_[lane] = std::max(last_[lane], others.last_[lane]);
  if (communications_.empty())
    communications_ = others.communications_;
  else
    for (const int32_t issue : others.communications_) add(issue, communication);
}

std::vector<int32_t> IssuesBefore::sorted() const {
  if (empty()) return {};
  std::array<int32_t, lane_count> kernels = last_;
  std::ranges::sort(kernels);
  const auto first = std::ranges::lower_bound(kernels, 0);
  std::vector<int32_t> issues(communications_.size() + static_cast<size_t>(kernels.end() - first));
  std::merge(first, kernels.end(), communications_.begin(), communications_.end(), issues.begin());
  return issues;
}

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
    wait_for_host(from.later_waits, from.host_waits);
    from.host_waits = host_waits_.size();
  }
  if (!from.later_waits.empty()) from.issued_waits.add(from.later_waits), from.later_waits.clear();
  const int32_t number = count();
  Issue& issue = issues_.emplace_back(Issue{family, name, queue(lane), std::move(work), innermost(), {}});
  const bool communicates = issue.communicates();
  if (has_thread(lane) || (communicates && from.last >= 0)) {
    IssuesBefore before = from.issued_waits;
    if (has_thread(lane)) {
      // The issuing thread appends this operation after the thread's own earlier operations and waits have ended. This
      // operation must therefore also follow them.
      const Queue& issuer = lanes_[base::ordinal(Lane::compute)];
      before.add(issuer.issued_waits), before.add(issuer.later_waits);
      wait_for_host(before, issuer.host_waits);
      if (issuer.last >= 0) before.add(issuer.last, kinds_[issuer.last]);
    }
    if (communicates && from.last >= 0) before.add(from.last, kinds_[from.last]);
    issue.after = before.sorted();
  } else {
    issue.after = from.issued_waits.sorted();
  }
  kinds_.push_back(communicates ? IssuesBefore::communication : static_cast<int8_t>(issue.lane));
  // Communication does not clear the waits of its queue.
  if (communicates)
    from.last_communication = number;
  else
    from.last = number, from.issued_waits.clear();
  return number;
}

// Adds to `waits` the operations for which the host waits, except the first `known` of them.
void IssueLog::wait_for_host(IssuesBefore& waits, size_t known) const {
  for (size_t i = known; i < host_waits_.size(); ++i) waits.add(host_waits_[i], kinds_[host_waits_[i]]);
}

// Returns the operations that precede a mark made by mark_of(lane).
std::vector<int32_t> IssueLog::before_mark(Lane lane) const {
  const Queue& of = lanes_[base::ordinal(queue(lane))];
  IssuesBefore before = of.later_waits;
  // A mark that includes the lane's last communication need not list the operations that this communication follows.
  if (!of.later_waits.contains_communication(of.last_communication)) before.add(of.issued_waits);
  if (of.last >= 0) before.add(of.last, kinds_[of.last]);
  return before.sorted();
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
  if (kinds_[issue] == static_cast<int8_t>(lane)) return;
  lanes_[base::ordinal(lane)].later_waits.add(issue, kinds_[issue]);
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
  if (issue >= 0 && (communicates(issue) || !runs_on_host(static_cast<Lane>(kinds_[issue]))))
    host_waits_.push_back(issue);
}

}  // namespace hexad::device
