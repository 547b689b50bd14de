// Inputs and counters of a run on a meta device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "framework/device/device_kind.h"
#include "framework/device/meta/issue_log.h"
#include "framework/device/meta/meta_memory.h"

namespace hexad::device {

/// State shared by the code that starts the run and the rank's context. For one thread.
class MetaRun {
 public:
  /// Constraints on the experts of each token: top_k different ones of `experts`. The experts form `groups` equal
  /// groups, and a token may use at most top_groups of these.
  struct Choice {
    int64_t top_k, experts, groups = 1, top_groups = 1;
    bool given = false;  // the recipe fixes the choices, and `ids` contains them already
    int64_t layer = -1;  // number among the layers with experts; -1: not known
    bool operator==(const Choice&) const = default;
  };
  /// Writes the experts that `ids.size() / top_k` tokens choose, token after token.
  using Choose = std::function<void(std::span<int32_t> ids, const Choice& choice)>;

  /// `stands_for` is the device to imitate: queries about a device's preferences (rows at a time, asynchronous
  /// launches) get the answers of this device.
  explicit MetaRun(DeviceKind stands_for, Choose routing = {}) : choose(std::move(routing)), stands_for_(stands_for) {}

  /// Starts to record the operations that the run issues. Call it before the contexts and groups of the run are made.
  void record_issues() {
    log_.emplace(stands_for_ == DeviceKind::cpu ? IssueLog::Host::computes : IssueLog::Host::launches);
  }
  /// Returns the record; null if the run keeps none.
  IssueLog* issues() { return log_ ? &*log_ : nullptr; }

  DeviceKind stands_for() const { return stands_for_; }
  const std::shared_ptr<MetaMemory>& memory() const { return memory_; }

  /// Routing model, which replaces the choices of routers. Empty if the run must not depend on routing.
  const Choose choose;
  /// Floating-point operations of products and of attention, forward and backward.
  double product_flops = 0, attention_flops = 0;

 private:
  const DeviceKind stands_for_;
  const std::shared_ptr<MetaMemory> memory_ = std::make_shared<MetaMemory>();
  std::optional<IssueLog> log_;
};

}  // namespace hexad::device
