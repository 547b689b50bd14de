#include "framework/device/meta/issue_part.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"
#include "framework/device/span_log.h"

namespace hexad::device {
namespace {

// Returns the position of `number` in the numbers first, first + 1, ...; -1 if it is less than `first`.
int32_t position(int32_t number, int32_t first) { return number < first ? -1 : number - first; }

// Makes the calls of a part to a log again. Calls that refer to an operation, a span or a mark of the part refer to
// that of the repetition instead.
class Repetition {
 public:
  Repetition(IssueLog& log, SpanLog* spans, const IssuePart& part, std::span<const RepeatedPart> earlier)
      : log_(log), earlier_(earlier), first_issue_(static_cast<int32_t>(log.issues().size())), repeated_{&part, {}} {
    if (!spans || !spans->recording()) return;
    around_ = spans->innermost();
    const auto first_span = static_cast<int32_t>(spans->recorded().size());
    for (const IssuePart::Span& span : part.spans) {
      spans->add_empty(span.name, span.around < 0 ? around_ : first_span + span.around);
      spans_.push_back(first_span + static_cast<int32_t>(spans_.size()));
    }
  }

  RepeatedPart run() {
    for (const IssuePart::Call& call : repeated_.part->calls) std::visit(*this, call);
    return std::move(repeated_);
  }

  void operator()(const IssuePart::Addition& a) {
    const bool inside = a.span >= 0 && !spans_.empty();
    log_.add_in(inside ? spans_[a.span] : around_, a.family, a.name, a.lane, a.work);
  }
  void operator()(const IssuePart::LaneMark& m) { repeated_.marked.push_back(log_.before_mark(m.lane)); }
  void operator()(const IssuePart::OperationMark& m) {
    repeated_.marked.push_back({m.issue < 0 ? -1 : first_issue_ + m.issue});
  }
  void operator()(const IssuePart::Wait& w) {
    for (const int32_t issue : marked(w.mark))
      if (w.of_host)
        log_.wait_on_host(issue);
      else
        log_.wait(w.lane, issue);
  }

 private:
  const std::vector<int32_t>& marked(int64_t mark) const {
    if (repeated_.part->made(mark)) return repeated_.marked[mark - repeated_.part->first_mark];
    const auto of = std::ranges::find_if(earlier_, [&](const RepeatedPart& r) { return r.part->made(mark); });
    base::require(of != earlier_.end(), "[meta device] a repeated part waits for mark ", mark,
                  ", which neither it nor an earlier repeated part makes");
    return of->marked[mark - of->part->first_mark];
  }

  IssueLog& log_;
  const std::span<const RepeatedPart> earlier_;
  const int32_t first_issue_;
  int32_t around_ = -1;
  std::vector<int32_t> spans_;  // for each span of the part, the repeated span
  RepeatedPart repeated_;
};

}  // namespace

bool IssuePart::repeatable_after(std::span<const IssuePart* const> earlier) const {
  if (marks_earlier_operations) return false;
  return std::ranges::all_of(calls, [&](const Call& call) {
    const Wait* wait = std::get_if<Wait>(&call);
    return !wait || made(wait->mark) ||
           std::ranges::any_of(earlier, [&](const IssuePart* part) { return part->made(wait->mark); });
  });
}

void IssueLog::start_part(IssuePart& part) {
  base::require(!part_, "[meta device] a part of a step was begun inside another part; expected end_part() before");
  part_ = &part;
  part.first_issue = static_cast<int32_t>(issues_.size());
  part.first_mark = marks_;
  part.first_span = spans_ ? static_cast<int32_t>(spans_->recorded().size()) : 0;
}

void IssueLog::end_part() {
  base::require(part_ != nullptr,
                "[meta device] a part of a step was ended before it began; expected start_part() before");
  IssuePart& part = *std::exchange(part_, nullptr);
  part.marks = marks_ - part.first_mark;
  if (!spans_) return;
  const std::vector<SpanLog::Recorded>& spans = spans_->recorded();
  for (size_t s = part.first_span; s < spans.size(); ++s)
    part.spans.push_back({spans[s].name, position(spans[s].around, part.first_span)});
}

void IssueLog::record_addition(std::string_view family, std::string_view name, Lane lane, const Work& work) {
  part_->calls.emplace_back(IssuePart::Addition{family, name, lane, work, position(innermost(), part_->first_span)});
}

void IssueLog::record_mark(Lane lane) { part_->calls.emplace_back(IssuePart::LaneMark{lane}); }

void IssueLog::record_mark(int32_t issue) {
  if (issue >= 0 && issue < part_->first_issue) part_->marks_earlier_operations = true;
  part_->calls.emplace_back(IssuePart::OperationMark{position(issue, part_->first_issue)});
}

void IssueLog::record_wait(bool of_host, Lane lane, const IssueMark& mark) {
  part_->calls.emplace_back(IssuePart::Wait{of_host, lane, mark.number()});
}

RepeatedPart IssueLog::repeat(const IssuePart& part, std::span<const RepeatedPart> earlier) {
  base::require(!part_, "[meta device] a part of a step was repeated inside another part; expected end_part() before");
  return Repetition(*this, spans_, part, earlier).run();
}

}  // namespace hexad::device
