// Log of the operations that a rank issues on a meta device. The time of a step can be estimated from the log.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/base/gemm_pass.h"
#include "framework/base/ordinal.h"
#include "framework/device/event.h"
#include "framework/device/lane.h"
#include "framework/device/meta/meta_allocator.h"

namespace hexad::device {

class SpanLog;
struct IssuePart;
struct RepeatedPart;

/// Matrix product of `rows` rows. The rows are divided among `groups` weights of shape outputs x inputs.
struct ProductWork {
  base::Dtype dtype;  // dtype of the operands
  base::GemmPass pass;
  int64_t rows, inputs, outputs, groups = 1;
  // Bytes moved in addition to the operands and a result in `dtype`. The number is not 0 if the result is wider than
  // `dtype`. It is also not 0 if the product is added to an existing result, which must be read.
  int64_t extra_bytes = 0;
  double share = 1;     // share of the threads, or of a card's multiprocessors, for the product (kernels::ComputeShare)
  int64_t largest = 0;  // rows of the largest group; 0: unknown, or all groups have equally many rows

  bool operator==(const ProductWork&) const = default;

  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(inputs) * static_cast<double>(outputs);
  }
};

/// Attention over `keys` positions of each sequence. A head has `head_size` elements. In the values, only the first
/// `value_size` elements of a head can differ from zero. `flops` is the number of floating-point operations in all
/// products of the call, including products with zeros. `heads` is the number of heads of all sequences together.
struct AttentionWork {
  base::Dtype dtype;
  bool backward;
  double flops;
  int64_t keys, head_size, heads = 1, value_size = head_size;

  bool operator==(const AttentionWork&) const = default;
};

/// Kernel that is neither a product nor attention. The time per byte depends on the family of the operation.
struct MemoryWork {
  int64_t bytes;  // total bytes read and written
  // Dtype of a tensor that is written. Exceptions: the dtype of the states in updates by optimizers that have states,
  // the dtype of the gradients in their squared norm, and f32 for Backend::fill and for the kernels of
  // framework/kernels/meta/meta_routing.cpp.
  base::Dtype dtype = base::Dtype::f32;

  bool operator==(const MemoryWork&) const = default;
};

/// Copy of `bytes` bytes. The kinds are:
/// - `device`: within device memory (on a CPU, within host memory)
/// - `to_host`, `from_host`: between a device and its host
/// - `offload`, `restore`: to offload memory and back
struct CopyWork {
  enum class Kind : uint8_t { device, to_host, from_host, offload, restore };
  int64_t bytes;
  Kind kind;

  bool operator==(const CopyWork&) const = default;
};

/// Collective or message.
struct CommunicationWork {
  int group;               // index in IssueLog::groups()
  int64_t sent, received;  // bytes sent to and received from other ranks; `received` is 0 for collectives except
                           // all_to_all
  int peer = -1;           // group rank of a message's peer or of a broadcast's root; -1: none

  bool operator==(const CommunicationWork&) const = default;
};

using Work = std::variant<ProductWork, AttentionWork, MemoryWork, CopyWork, CommunicationWork>;

/// Operation that a rank issued. The operations of one lane run in the order of the log. Communication is an exception:
/// it runs concurrently with all lanes.
struct Issue {
  std::string_view family, name;  // such as ("swiglu", "backward") or ("comm", "all_to_all")
  Lane lane;  // lane to which the operation was issued; always Lane::compute if the log has Host::computes
  Work work;
  int32_t span;  // index of the rank's innermost open span at the time of issue; -1: none
  // Operations that must end before this operation starts. For each lane, only the last non-communication operation is
  // listed, because the lane's non-communication operations end in order. The last operation of this operation's own
  // lane is listed in two cases only: this operation is communication, or the host has waited for that last operation.
  std::vector<int32_t> after;

  bool communicates() const { return std::holds_alternative<CommunicationWork>(work); }
  bool operator==(const Issue&) const = default;
};

/// Group of ranks that communicate with each other.
struct IssuedGroup {
  std::string name;        // name of the group, such as "ep"
  int traffic;             // number of its comm::TrafficClass
  std::vector<int> ranks;  // world ranks of the members, in the group's order
  int rank;                // index of this rank in `ranks`

  bool operator==(const IssuedGroup&) const = default;
};

/// Set of operations that another operation must wait for. Leaves out redundant operations: of each lane, only the last
/// operation that is not communication is kept, because such operations of a lane end in order.
class IssuesBefore {
 public:
  /// Kind of an operation that is communication. The kind of any other operation is the number of its lane.
  static constexpr int8_t communication = -1;

  IssuesBefore() { last_.fill(-1); }
  bool empty() const;
  void clear() { last_.fill(-1), communications_.clear(); }
  bool contains_communication(int32_t issue) const;
  void add(int32_t issue, int8_t kind);
  void add(const IssuesBefore& others);
  /// Returns the operations, as their numbers in the log, ascending.
  std::vector<int32_t> sorted() const;

 private:
  std::array<int32_t, lane_count> last_;  // by lane: last operation that is not communication; -1: none
  std::vector<int32_t> communications_;   // ascending
};

class IssueLog;

/// Mark after operations of the log. wait() only records in the log that the host waits, because nothing runs.
class IssueMark final : public DeviceMark {
 public:
  IssueMark(IssueLog& log, int64_t number, std::vector<int32_t> issues)
      : log_(log), number_(number), issues_(std::move(issues)) {}
  /// Returns the number of marks that the log had made before this mark.
  int64_t number() const { return number_; }
  const std::vector<int32_t>& issues() const { return issues_; }
  bool passed() const override { return true; }
  void wait() const override;
  double passed_at() const override;
  bool timed() const override { return false; }

 private:
  IssueLog& log_;
  const int64_t number_;
  const std::vector<int32_t> issues_;
};

/// Renaming of a part's spans in a repetition. `to` replaces `from` in names that begin with `from` (such as
/// "layers.3"), followed by a dot or a space. Other names are kept.
struct RenamedSpans {
  std::string from{}, to{};
};

/// Log of the operations that a rank issues. Not thread-safe.
class IssueLog {
 public:
  /// Place where kernels run:
  /// - computes: on the issuing thread, as on a CPU. The thread is blocked until the kernels end.
  /// - computes_beside_lanes: on the issuing thread for Lane::compute, and on a separate thread for each other lane.
  /// - launches: in queues of a device.
  enum class Host : uint8_t { computes, computes_beside_lanes, launches };

  explicit IssueLog(Host host) : host_(host) {}
  IssueLog(const IssueLog&) = delete;
  IssueLog& operator=(const IssueLog&) = delete;

  /// Stores the number of the innermost open span of `spans` in each later operation; -1 if there is none. `spans` must
  /// outlive the later calls of this log.
  void follow(SpanLog& spans) { spans_ = &spans; }
  /// Appends an operation of `lane` and returns its number in the log. During a Pause, appends nothing and returns -1.
  int32_t add(std::string_view family, std::string_view name, Lane lane, Work work);
  /// Adds a group and returns its index in groups().
  int add_group(IssuedGroup group);

  /// Makes later operations of `lane` wait for `issue`. Ignores -1, the number that add() returns during a Pause.
  void wait(Lane lane, int32_t issue);
  /// Records that the issuing thread waits for `issue`: all later operations wait for it. Ignores -1.
  void wait_on_host(int32_t issue);
  /// The next two functions make later operations of `lane`, or all later operations, wait for the operations before a
  /// mark.
  void wait(Lane lane, const IssueMark& mark);
  void wait_on_host(const IssueMark& mark);
  /// Returns a mark after operation `issue`, for which other lanes can wait. The log must outlive the mark.
  std::shared_ptr<const IssueMark> mark(int32_t issue);
  /// Returns a mark after the lane's last non-communication operation. The mark also follows all operations for which
  /// wait() has made the lane wait since that operation was added. Leaves out the operations that the lane's last
  /// communication follows, if the lane waits for this communication. Returns null if the mark would follow no
  /// operation and no part is being recorded. The log must outlive the mark.
  std::shared_ptr<const IssueMark> mark_of(Lane lane);

  /// Records later calls (IssuePart::Call) and spans in `part`, until end_part(). `part` must be new. Before
  /// end_part(), all waits must be for marks, not for numbers of operations. Throws std::logic_error if another part is
  /// being recorded.
  void start_part(IssuePart& part);
  void end_part();
  /// True if a part is being recorded.
  bool records_part() const { return part_ != nullptr; }
  /// Records a change of the memory in use in the current part, if this part counts memory (IssuePart::counts_memory).
  void record_memory(MetaAllocator& allocator, const MetaAllocator::Change& change);
  /// Returns a mark after no operation. A part records a wait for this mark, but not a wait for a null mark.
  std::shared_ptr<const IssueMark> mark_of_nothing() { return new_mark({}); }
  /// Function that makes call `number` of the program again and returns the event of this call.
  using CallProgram = std::function<Event(size_t number)>;
  /// Makes the calls of `part` again, with new operations, spans and marks. A part that is being recorded at this time
  /// records the new calls. `earlier` contains repetitions of other parts: where `part` waited for a mark of another
  /// part, the new call waits for the corresponding mark in `earlier`. Makes calls of the program (InnerCall) through
  /// `program`, which may be empty if `part` has no such calls. Counts changes of the memory in use again. Requires
  /// that IssuePart::repeatable_after() is true.
  RepeatedPart repeat(const IssuePart& part, std::span<const RepeatedPart> earlier, const CallProgram& program = {},
                      const RenamedSpans& renamed = {});

  /// Call of the program inside the part that is being recorded. During the lifetime of the object, the part does not
  /// record calls to the log, because they depend on the state of the program. A repetition of the part makes the
  /// program's call again instead.
  class InnerCall {
   public:
    explicit InnerCall(IssueLog& log);
    ~InnerCall() { log_.part_ = part_; }
    InnerCall(const InnerCall&) = delete;
    InnerCall& operator=(const InnerCall&) = delete;
    /// True if a part contains the call.
    bool recorded() const { return part_ != nullptr; }

   private:
    IssueLog& log_;
    IssuePart* const part_;
  };

  /// Stores span number `span` (-1: none) in operations that are added during the lifetime of this object.
  class InSpan {
   public:
    InSpan(IssueLog& log, int32_t span) : log_(log), before_(std::exchange(log.in_span_, span)) {}
    ~InSpan() { log_.in_span_ = before_; }
    InSpan(const InSpan&) = delete;
    InSpan& operator=(const InSpan&) = delete;

   private:
    IssueLog& log_;
    const std::optional<int32_t> before_;
  };

  /// Makes add() ignore operations during the lifetime of this object, for work that a real device would not perform.
  /// `log` may be null.
  class Pause {
   public:
    explicit Pause(IssueLog* log) : log_(log), before_(log && std::exchange(log->paused_, true)) {}
    ~Pause() {
      if (log_) log_->paused_ = before_;
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    IssueLog* const log_;
    const bool before_;
  };

  /// True during a Pause: operations are not added.
  bool paused() const { return paused_; }
  /// Returns the number of operations that were added, which is also the number of the next operation.
  int32_t count() const { return static_cast<int32_t>(kinds_.size()); }
  /// True if operation `issue` is communication.
  bool communicates(int32_t issue) const { return kinds_[issue] == IssuesBefore::communication; }
  /// Returns the operations since the last call of take_issues(); all operations if there was no such call.
  const std::vector<Issue>& issues() const { return issues_; }
  /// Moves the operations of issues() out of the log. Later operations may still wait for them.
  std::vector<Issue> take_issues() { return std::exchange(issues_, {}); }
  const std::vector<IssuedGroup>& groups() const { return groups_; }

 private:
  struct Queue {
    int32_t last = -1;                // last non-communication operation; -1: none
    int32_t last_communication = -1;  // last communication; -1: none
    // Operations that the queue's next operation must wait for. The queue's latest communication already waits for
    // those in `issued_waits`. Those in `later_waits` were added after that communication.
    IssuesBefore issued_waits{}, later_waits{};
    size_t host_waits = 0;  // number of first entries of host_waits_ for which the queue already waits
  };
  // With Host::computes, all lanes are one queue: the issuing thread.
  Lane queue(Lane lane) const { return host_ == Host::computes ? Lane::compute : lane; }
  /// True if the issuing thread itself runs the operations of the lane.
  bool runs_on_host(Lane lane) const { return host_ != Host::launches && queue(lane) == Lane::compute; }
  /// True if a thread of the lane runs its operations.
  bool has_thread(Lane lane) const { return host_ == Host::computes_beside_lanes && lane != Lane::compute; }
  int32_t innermost() const;
  std::vector<int32_t> before_mark(Lane lane) const;
  void wait_for_host(IssuesBefore& waits, size_t known) const;
  std::shared_ptr<const IssueMark> new_mark(std::vector<int32_t> issues);
  // The next four functions append a call to the part that is being recorded.
  void record_addition(std::string_view family, std::string_view name, Lane lane, const Work& work);
  void record_mark(Lane lane);
  void record_mark(int32_t issue);
  void record_wait(bool is_host, Lane lane, const IssueMark& mark);

  const Host host_;
  SpanLog* spans_ = nullptr;
  std::vector<Issue> issues_;
  std::vector<int8_t> kinds_;  // kind (IssuesBefore) of every operation, also of those that take_issues() has removed
  std::vector<IssuedGroup> groups_;
  std::array<Queue, lane_count> lanes_{};
  std::vector<int32_t> host_waits_;
  bool paused_ = false;
  int64_t marks_ = 0;               // number of marks made
  IssuePart* part_ = nullptr;       // part that is being recorded; null: none
  std::optional<int32_t> in_span_;  // span of InSpan; none: the innermost open span
};

}  // namespace hexad::device
