// What a run on a meta device is told, and what it counts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "framework/device/device_kind.h"
#include "framework/device/meta/meta_memory.h"

namespace hexad::device {

/// Shared by whoever starts the run and the rank's context. Everything runs on one thread.
class MetaRun {
 public:
  /// Experts that `ids.size() / top_k` tokens choose of `experts`, top_k different ones each, token after token.
  using Choose = std::function<void(std::span<int32_t> ids, int64_t top_k, int64_t experts)>;

  /// Code that asks how a device likes its work (rows at a time, whether the host waits) is answered for `stands_for`.
  explicit MetaRun(DeviceKind stands_for, Choose routing = {}) : choose(std::move(routing)), stands_for_(stands_for) {}

  DeviceKind stands_for() const { return stands_for_; }
  const std::shared_ptr<MetaMemory>& memory() const { return memory_; }

  /// The routing model: what routers give in the place of what their scores would say. Empty: nobody may ask them.
  const Choose choose;
  /// Floating-point operations of products, and of attention: forward and backward.
  double product_flops = 0, attention_flops = 0;

 private:
  const DeviceKind stands_for_;
  const std::shared_ptr<MetaMemory> memory_ = std::make_shared<MetaMemory>();
};

}  // namespace hexad::device
