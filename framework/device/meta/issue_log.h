// Record of the operations that a rank issues on a meta device, from which a step can be priced.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
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

namespace hexad::device {

class SpanLog;

/// Matrix product of `rows` rows, divided evenly among `groups` weights of outputs x inputs.
struct ProductWork {
  base::Dtype dtype;  // of the operands
  base::GemmPass pass;
  int64_t rows, inputs, outputs, groups = 1;
  int64_t extra_bytes = 0;  // of the result: beyond elements of `dtype`, and read if it is added to

  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(inputs) * static_cast<double>(outputs);
  }
};

/// Attention over `keys` positions with heads of `head_size`; `flops` of all its products.
struct AttentionWork {
  base::Dtype dtype;
  bool backward;
  double flops;
  int64_t keys, head_size;
};

/// Kernel that the bandwidth of memory limits.
struct MemoryWork {
  int64_t bytes;  // read and written
};

/// Copy. device: inside the device's memory. host: between it and the host. offload, restore: into offload memory, and
/// back.
struct CopyWork {
  enum class Kind : uint8_t { device, host, offload, restore };
  int64_t bytes;
  Kind kind;
};

/// Collective or message.
struct CommunicationWork {
  int group;               // IssueLog::groups()
  int64_t sent, received;  // bytes, to and from other ranks
  int peer = -1;           // rank in the group on the other side of a message
};

using Work = std::variant<ProductWork, AttentionWork, MemoryWork, CopyWork, CommunicationWork>;

/// Operation that a rank issued. Operations of a lane run in the order of the log, communication runs beside the lanes.
struct Issue {
  std::string_view family, name;  // "swiglu", "backward"; "comm", "all_to_all"; "copy", "offload"
  Lane lane;                      // of the stream on which it was issued
  Work work;
  int32_t span;                // innermost span of the rank at the time of issue; -1: none
  std::vector<int32_t> after;  // operations that must be done before; those of the same lane are not listed

  bool communicates() const { return std::holds_alternative<CommunicationWork>(work); }
};

/// Group of ranks that communicates.
struct IssuedGroup {
  std::string name;        // "ep"
  int traffic;             // comm::TrafficClass
  std::vector<int> ranks;  // numbers in the world, in the group's order
  int rank;                // this rank's place among them
};

class IssueLog;

/// Place of an operation in its log. Nothing runs, so a thread that waits goes on, and the log notes that it waited.
class IssueMark final : public DeviceMark {
 public:
  IssueMark(IssueLog& log, int32_t issue) : log_(log), issue_(issue) {}
  int32_t issue() const { return issue_; }
  bool passed() const override { return true; }
  void wait() const override;
  double passed_at() const override;

 private:
  IssueLog& log_;
  const int32_t issue_;
};

/// For one thread.
class IssueLog {
 public:
  /// Says who runs kernels. computes: the issuing thread, as on a CPU, so that it does nothing else meanwhile.
  /// launches: queues of a device.
  enum class Host : uint8_t { computes, launches };

  explicit IssueLog(Host host) : host_(host) {}
  IssueLog(const IssueLog&) = delete;
  IssueLog& operator=(const IssueLog&) = delete;

  /// Names later operations by the spans of `spans`, which records and outlives the recording.
  void follow(const SpanLog& spans) { spans_ = &spans; }
  /// Appends an operation of `lane` and returns its number; -1 during a Pause.
  int32_t add(std::string_view family, std::string_view name, Lane lane, Work work);
  /// Returns the number of a group.
  int add_group(IssuedGroup group);

  /// Makes later operations of `lane` wait for `issue`.
  void wait(Lane lane, int32_t issue);
  /// Makes all later operations wait for `issue`, because the issuing thread does.
  void wait_on_host(int32_t issue);
  /// Returns the last operation of the lane that is no communication; -1: none.
  int32_t last(Lane lane) const { return lanes_[base::ordinal(queue(lane))].last; }
  /// Returns the mark of `issue`, by which other lanes wait for it. The log outlives the mark.
  std::shared_ptr<const DeviceMark> mark(int32_t issue) { return std::make_shared<IssueMark>(*this, issue); }

  /// Records nothing during its lifetime: for work that a real device would not do. `log` may be null.
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

  const std::vector<Issue>& issues() const { return issues_; }
  const std::vector<IssuedGroup>& groups() const { return groups_; }

 private:
  struct Queue {
    int32_t last = -1;
    std::vector<int32_t> waits;  // that the next operation begins with
    size_t host_waits = 0;       // number of host_waits_ that its operations come after
  };
  // On a host that computes, lanes are one queue: its thread.
  Lane queue(Lane lane) const { return host_ == Host::computes ? Lane::compute : lane; }

  const Host host_;
  const SpanLog* spans_ = nullptr;
  std::vector<Issue> issues_;
  std::vector<IssuedGroup> groups_;
  std::array<Queue, lane_count> lanes_{};
  std::vector<int32_t> host_waits_;
  bool paused_ = false;
};

}  // namespace hexad::device
