// Inputs and counters of a run on a meta device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "framework/device/device_kind.h"
#include "framework/device/meta/meta_memory.h"

namespace hexad::device {

/// Shared by the code that starts the run and the rank's context. Everything runs on one thread.
class MetaRun {
 public:
  /// Choice that each token has: top_k different ones of `experts`, which lie in `groups` equal groups, from at most
  /// top_groups of these.
  struct Choice {
    int64_t top_k, experts, groups = 1, top_groups = 1;
    bool given = false;  // the recipe says what tokens choose, and `ids` has that already
    bool operator==(const Choice&) const = default;
  };
  /// Writes the experts that `ids.size() / top_k` tokens choose, token after token.
  using Choose = std::function<void(std::span<int32_t> ids, const Choice& choice)>;

  /// Code that asks how a device likes its work (rows at a time, whether the host waits) is answered for `stands_for`.
  explicit MetaRun(DeviceKind stands_for, Choose routing = {}) : choose(std::move(routing)), stands_for_(stands_for) {}

  DeviceKind stands_for() const { return stands_for_; }
  const std::shared_ptr<MetaMemory>& memory() const { return memory_; }

  /// The routing model, which replaces the choices of routers. Empty if the run must not depend on routing.
  const Choose choose;
  /// Floating-point operations of products, and of attention: forward and backward.
  double product_flops = 0, attention_flops = 0;

 private:
  const DeviceKind stands_for_;
  const std::shared_ptr<MetaMemory> memory_ = std::make_shared<MetaMemory>();
};

}  // namespace hexad::device
