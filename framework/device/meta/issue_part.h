// Part of a step whose calls to an IssueLog are recorded, so that the log can repeat them without running the part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/device/event.h"
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
    bool operator==(const Addition&) const = default;
  };
  /// Call of IssueLog::mark_of().
  struct LaneMark {
    Lane lane;
    bool operator==(const LaneMark&) const = default;
  };
  /// Call of IssueLog::mark().
  struct OperationMark {
    int32_t issue;  // index among the operations that the part added; -1: none of them
    bool operator==(const OperationMark&) const = default;
  };
  /// Call of the program. The part does not contain the calls to the log that the program makes during this call
  /// (IssueLog::InnerCall).
  struct ProgramCall {
    int32_t span;  // index in `spans`; -1: the span around the part
    bool operator==(const ProgramCall&) const = default;
  };
  /// Wait of a lane, or of the host, for a mark.
  struct Wait {
    bool is_host;
    Lane lane;             // not used if the host waits
    int64_t mark;          // IssueMark::number()
    int32_t program = -1;  // number of the program's call that returned the event of the mark (bind()); -1: none
    bool operator==(const Wait&) const = default;
  };
  /// Change of the memory in use. A part contains such changes only if it counts memory.
  struct Memory {
    MetaAllocator* allocator;
    MetaAllocator::Change change;
    bool operator==(const Memory&) const = default;
  };
  using Call = std::variant<Addition, LaneMark, OperationMark, ProgramCall, Wait, Memory>;
  struct Span {
    std::string name;
    int32_t around;  // index of the enclosing span; -1: the span around the part
  };

  std::vector<Call> calls;
  std::vector<Span> spans;
  std::vector<int64_t> marks;   // IssueMark::number() of the marks that the part made, ascending
  std::vector<int32_t> issues;  // numbers in the log of the operations that the part added, ascending
  int32_t first_span = 0;       // number of spans in the log when the part began
  /// True if the part also records changes of the memory in use. A repetition then needs the same allocators. Must be
  /// set before start_part().
  bool counts_memory = false;
  bool marks_other_operations = false;  // true if the part called mark() for an operation that it did not add

  /// True if the part made the mark with this number.
  bool made(int64_t mark) const { return std::ranges::binary_search(marks, mark); }
  /// Returns the position in `marks` of a mark that the part made.
  size_t position_of(int64_t mark) const { return std::ranges::lower_bound(marks, mark) - marks.begin(); }
  /// Sets Wait::program in each wait for a mark that a call of the program returned. `events` has the event that each
  /// call returned, in order. If several calls returned the event of a wait, the wait refers to the last of these calls
  /// before the wait. Call this function after end_part(), when all events for which the part waits are done.
  void bind(std::span<const Event> events);
  /// True if the log can repeat the part after repetitions of the parts `earlier`. This requires that the part waits
  /// only for its own marks, marks of `earlier`, and events of the program's calls (bind()). It also requires that the
  /// part did not call IssueLog::mark() for an operation that it did not add.
  bool repeatable_after(std::span<const IssuePart* const> earlier) const;
  /// True if repetitions of this part and of `other` make the same calls, apart from the names of spans. Requires that
  /// repeatable_after({}) is true for both parts.
  bool same_calls(const IssuePart& other) const;
};

/// Repetition of a part. `part` must outlive the object.
struct RepeatedPart {
  const IssuePart* part;
  // Marks of the repetition: one for each entry of part->marks, in this order. A mark is null if IssueLog::mark_of()
  // returned null, that is, if no operation precedes the mark.
  std::vector<std::shared_ptr<const IssueMark>> marks{};
};

}  // namespace hexad::device
