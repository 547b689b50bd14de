// Parameters and counters of a run on a meta device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "framework/device/device_kind.h"
#include "framework/device/meta/issue_log.h"
#include "framework/device/meta/known_results.h"
#include "framework/device/meta/meta_memory.h"

namespace hexad::device {

/// State that the rank's context shares with the code that starts the run. Not thread-safe.
class MetaRun {
 public:
  /// Constraints on the experts to which a token is routed: top_k different experts among `experts`. The experts form
  /// `groups` equal groups, and a token uses experts of at most top_groups groups.
  struct Choice {
    int64_t top_k, experts, groups = 1, top_groups = 1;
    bool given = false;  // true: the recipe fixes the routing, and the argument `ids` of Choose already contains it
    int64_t layer = -1;  // index among the layers with experts; -1: unknown
    bool operator==(const Choice&) const = default;
  };
  /// Function that writes the experts of `ids.size() / top_k` tokens, token after token.
  using Choose = std::function<void(std::span<int32_t> ids, const Choice& choice)>;

  /// Makes a run that imitates a device of kind `stands_for`. Queries about properties of the device, such as
  /// asynchronous launches, return the properties of this kind. `routing` initialises the member `choose`. Several runs
  /// on one thread may share `results`.
  explicit MetaRun(DeviceKind stands_for, Choose routing = {},
                   std::shared_ptr<KnownResults> results = std::make_shared<KnownResults>())
      : choose(std::move(routing)), stands_for_(stands_for), results_(std::move(results)) {}

  /// Makes the lanes of the run imitate lanes that have separate threads (DeviceContext::run_lanes_on_threads()). Must
  /// be called before record_issues() and before the contexts of the run are created. The run must imitate a CPU.
  void imitate_lanes_with_threads() { lanes_have_threads_ = true; }
  bool lanes_have_threads() const { return lanes_have_threads_; }
  /// Starts to log the operations that the run issues. Must be called before the contexts and groups of the run are
  /// created.
  void record_issues() {
    using enum IssueLog::Host;
    log_.emplace(stands_for_ != DeviceKind::cpu ? launches : lanes_have_threads_ ? computes_beside_lanes : computes);
  }
  /// Returns the log; null if record_issues() was not called.
  IssueLog* issues() { return log_ ? &*log_ : nullptr; }

  DeviceKind stands_for() const { return stands_for_; }
  const std::shared_ptr<MetaMemory>& memory() const { return memory_; }
  /// Returns the results of kernels that compute with known values.
  KnownResults& results() { return *results_; }

  /// Function that replaces the choices of the routers. It is empty if the run must not depend on routing.
  const Choose choose;
  /// Floating-point operations of the products and of the attention that the run has counted so far.
  double product_flops = 0, attention_flops = 0;

 private:
  const DeviceKind stands_for_;
  bool lanes_have_threads_ = false;
  const std::shared_ptr<MetaMemory> memory_ = std::make_shared<MetaMemory>();
  const std::shared_ptr<KnownResults> results_;
  std::optional<IssueLog> log_;
};

}  // namespace hexad::device
