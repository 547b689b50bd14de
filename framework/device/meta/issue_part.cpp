#include "framework/device/meta/issue_part.h"

#include <algorithm>
#include <map>
#include <utility>

#include "framework/base/error.h"
#include "framework/device/span_log.h"

namespace hexad::device {
namespace {

// Returns the position of `number` in the numbers first, first + 1, ...; -1 if it is less than `first`.
int32_t position(int32_t number, int32_t first) { return number < first ? -1 : number - first; }

// Returns the name that the span `name` has in a repetition.
std::string repeated_name(const std::string& name, const RenamedSpans& renamed) {
  const size_t size = renamed.from.size();
  const bool other =
      size == 0 || name.size() <= size || !name.starts_with(renamed.from) || (name[size] != '.' && name[size] != ' ');
  return other ? name : base::cat(renamed.to, name.substr(size));
}

// Makes the calls of a part to a log again. If a call refers to an operation, a span or a mark of the part, the new
// call refers to its counterpart in the repetition.
class Repetition {
 public:
  Repetition(IssueLog& log, SpanLog* spans, const IssuePart& part, std::span<const RepeatedPart> earlier,
             const IssueLog::CallProgram& program, const RenamedSpans& renamed)
      : log_(log), earlier_(earlier), program_(program), repeated_{&part} {
    if (!spans || !spans->recording()) return;
    around_ = spans->innermost();
    const auto first_span = static_cast<int32_t>(spans->recorded().size());
    for (const IssuePart::Span& span : part.spans) {
      spans->add_empty(repeated_name(span.name, renamed), span.around < 0 ? around_ : first_span + span.around);
      spans_.push_back(first_span + static_cast<int32_t>(spans_.size()));
    }
  }

  RepeatedPart run() {
    for (const IssuePart::Call& call : repeated_.part->calls) std::visit(*this, call);
    return std::move(repeated_);
  }

  void operator()(const IssuePart::Addition& a) {
    const IssueLog::InSpan span(log_, repeated_span(a.span));
    issues_.push_back(log_.add(a.family, a.name, a.lane, a.work));
  }
  void operator()(const IssuePart::LaneMark& m) { repeated_.marks.push_back(log_.mark_of(m.lane)); }
  void operator()(const IssuePart::OperationMark& m) {
    repeated_.marks.push_back(log_.mark(m.issue < 0 ? -1 : issues_[m.issue]));
  }
  void operator()(const IssuePart::ProgramCall& c) {
    const IssueLog::InSpan span(log_, repeated_span(c.span));
    events_.push_back(program_(events_.size()));
  }
  void operator()(const IssuePart::Memory& m) { m.allocator->count_change(m.change); }
  void operator()(const IssuePart::Wait& w) {
    const auto mark = w.program < 0 ? repeated_mark(w.mark)
                                    : std::dynamic_pointer_cast<const IssueMark>(events_[w.program].launched());
    if (!mark) return;  // the mark follows no operation, so no wait is necessary
    if (w.is_host)
      log_.wait_on_host(*mark);
    else
      log_.wait(w.lane, *mark);
  }

 private:
  int32_t repeated_span(int32_t span) const { return span >= 0 && !spans_.empty() ? spans_[span] : around_; }

  std::shared_ptr<const IssueMark> repeated_mark(int64_t mark) const {
    if (repeated_.part->made(mark)) return repeated_.marks[repeated_.part->position_of(mark)];
    const auto of = std::ranges::find_if(earlier_, [&](const RepeatedPart& r) { return r.part->made(mark); });
    base::require(of != earlier_.end(), "[meta device] a repeated part waits for mark ", mark,
                  ", which neither this part nor an earlier repeated part makes; expected a mark of these parts");
    return of->marks[of->part->position_of(mark)];
  }

  IssueLog& log_;
  const std::span<const RepeatedPart> earlier_;
  const IssueLog::CallProgram& program_;
  int32_t around_ = -1;
  std::vector<int32_t> spans_;   // repeated span of each span of the part
  std::vector<int32_t> issues_;  // repeated operation of each operation of the part
  std::vector<Event> events_;    // events that the program's calls have returned so far
  RepeatedPart repeated_;
};

}  // namespace

void IssuePart::bind(std::span<const Event> events) {
  std::map<int64_t, int32_t> call_of;  // number of the program's call, by the number of the mark
  int32_t number = 0;
  for (Call& call : calls) {
    if (std::holds_alternative<ProgramCall>(call)) {
      const Event& event = events[number];
      const auto mark = event.done() ? std::dynamic_pointer_cast<const IssueMark>(event.launched()) : nullptr;
      if (mark) call_of[mark->number()] = number;
      ++number;
    } else if (Wait* wait = std::get_if<Wait>(&call)) {
      if (const auto found = call_of.find(wait->mark); found != call_of.end()) wait->program = found->second;
    }
  }
}

bool IssuePart::repeatable_after(std::span<const IssuePart* const> earlier) const {
  if (marks_other_operations) return false;
  return std::ranges::all_of(calls, [&](const Call& call) {
    const Wait* wait = std::get_if<Wait>(&call);
    return !wait || wait->program >= 0 || made(wait->mark) ||
           std::ranges::any_of(earlier, [&](const IssuePart* part) { return part->made(wait->mark); });
  });
}

bool IssuePart::same_calls(const IssuePart& other) const {
  // Replaces the number of a mark by the mark's position in `marks`. Replaces it by 0 if a call of the program returned
  // the mark.
  const auto relative = [](const IssuePart& part, Wait wait) {
    wait.mark = wait.program < 0 ? static_cast<int64_t>(part.position_of(wait.mark)) : 0;
    return wait;
  };
  return std::ranges::equal(calls, other.calls, [&](const Call& a, const Call& b) {
    const Wait *wait = std::get_if<Wait>(&a), *wait_of_other = std::get_if<Wait>(&b);
    return wait && wait_of_other ? relative(*this, *wait) == relative(other, *wait_of_other) : a == b;
  });
}

void IssueLog::start_part(IssuePart& part) {
  base::require(!part_,
                "[meta device] start_part() was called inside another part of a step; expected end_part() first");
  part_ = &part;
  part.first_span = spans_ ? static_cast<int32_t>(spans_->recorded().size()) : 0;
}

void IssueLog::end_part() {
  base::require(part_ != nullptr,
                "[meta device] end_part() was called outside a part of a step; expected start_part() first");
  IssuePart& part = *std::exchange(part_, nullptr);
  if (!spans_) return;
  const std::vector<SpanLog::Recorded>& spans = spans_->recorded();
  for (size_t s = part.first_span; s < spans.size(); ++s)
    part.spans.push_back({spans[s].name, position(spans[s].around, part.first_span)});
}

IssueLog::InnerCall::InnerCall(IssueLog& log) : log_(log), part_(std::exchange(log.part_, nullptr)) {
  if (part_) part_->calls.emplace_back(IssuePart::ProgramCall{position(log.innermost(), part_->first_span)});
}

void IssueLog::record_addition(std::string_view family, std::string_view name, Lane lane, const Work& work) {
  part_->issues.push_back(count());
  part_->calls.emplace_back(IssuePart::Addition{family, name, lane, work, position(innermost(), part_->first_span)});
}

void IssueLog::record_mark(Lane lane) {
  part_->marks.push_back(marks_);
  part_->calls.emplace_back(IssuePart::LaneMark{lane});
}

void IssueLog::record_mark(int32_t issue) {
  const auto at = std::ranges::lower_bound(part_->issues, issue);
  const bool own = at != part_->issues.end() && *at == issue;
  if (issue >= 0 && !own) part_->marks_other_operations = true;
  part_->marks.push_back(marks_);
  part_->calls.emplace_back(IssuePart::OperationMark{own ? static_cast<int32_t>(at - part_->issues.begin()) : -1});
}

void IssueLog::record_memory(MetaAllocator& allocator, const MetaAllocator::Change& change) {
  if (part_ && part_->counts_memory) part_->calls.emplace_back(IssuePart::Memory{&allocator, change});
}

void IssueLog::record_wait(bool is_host, Lane lane, const IssueMark& mark) {
  part_->calls.emplace_back(IssuePart::Wait{is_host, lane, mark.number()});
}

RepeatedPart IssueLog::repeat(const IssuePart& part, std::span<const RepeatedPart> earlier, const CallProgram& program,
                              const RenamedSpans& renamed) {
  return Repetition(*this, spans_, part, earlier, program, renamed).run();
}

}  // namespace hexad::device
