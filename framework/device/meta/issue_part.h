// Part of a step whose calls to an IssueLog are recorded, so that the log can repeat them without running the part.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/device/meta/issue_log.h"

namespace hexad::device {

/// Recorded part of a step, such as the forward of a micro-batch: the calls to the log, and the spans.
struct IssuePart {
  /// Call of IssueLog::add().
  struct Addition {
    std::string_view family, name;
    Lane lane;
    Work work;
    int32_t span;  // index in `spans`; -1: the span around the part
  };
  /// Call of IssueLog::mark_of().
  struct LaneMark {
    Lane lane;
  };
  /// Call of IssueLog::mark().
  struct OperationMark {
    int32_t issue;  // number of the operation among those of the part; -1: issued during a Pause or before the part
  };
  /// Wait of a lane, or of the host, for a mark.
  struct Wait {
    bool of_host;
    Lane lane;     // not used if the host waits
    int64_t mark;  // IssueMark::number()
  };
  using Call = std::variant<Addition, LaneMark, OperationMark, Wait>;
  struct Span {
    std::string name;
    int32_t around;  // index of the enclosing span; -1: the span around the part
  };

  std::vector<Call> calls;
  std::vector<Span> spans;
  int64_t first_mark = 0, marks = 0;        // numbers of the marks that the part made: the first number, and the count
  int32_t first_issue = 0, first_span = 0;  // numbers of operations and of spans in the log when the part began
  bool marks_earlier_operations = false;    // true if the part called mark() for an operation from before it

  /// True if the part made the mark with this number.
  bool made(int64_t mark) const { return mark >= first_mark && mark < first_mark + marks; }
  /// True if the log can repeat the part after repetitions of the parts `earlier`. This requires that the part waits
  /// only for marks that it made itself or that `earlier` made, and that it did not call IssueLog::mark() for an
  /// operation from before it.
  bool repeatable_after(std::span<const IssuePart* const> earlier) const;
};

/// Repetition of a part. `part` must outlive the object.
struct RepeatedPart {
  const IssuePart* part;
  std::vector<std::vector<int32_t>> marked;  // for each mark of the part, in order: the operations that precede it
};

}  // namespace hexad::device
