// Expert activations that are in offload memory between forward and backward.
#pragma once

#include <memory>

#include "layers/moe/pass/chunk_activations.h"
#include "layers/moe/pass/dispatch.h"

namespace hexad::moe {

/// Holds the offloaded activations of one call: T_DI with strategies S1 and S3, T_M (only gate_up) with S1 and S2. Adds
/// these tasks:
///   inputs.offload        copies T_DI of a chunk to offload memory, while experts compute
///   activations.offload   copies T_M of a chunk to offload memory
///   inputs.fetch          copies T_DI of a chunk back to the device
///   activations.fetch     copies T_M of a chunk back to the device
class OffloadedActivations {
 public:
  OffloadedActivations(ReuseStrategy strategy, const Experts& experts, size_t chunks);

  bool inputs() const { return inputs_; }
  bool activations() const { return activations_; }

  // The next three functions are for forward.
  /// Adds the task inputs.offload, which starts once the rows have arrived. Returns `arrived`, whose rows this task and
  /// one other task take. Adds nothing and returns `arrived` unchanged if T_DI is not offloaded.
  Arrived add_inputs_offload(PassGraph& g, size_t chunk, Arrived arrived);
  /// Stores gate_up of a computed chunk until activations.offload copies it. Stores nothing if T_M is not offloaded.
  void put(size_t chunk, ExpertActivations made);
  /// Adds the task activations.offload, which starts after the task `computed`. Returns the task, or no_task if T_M is
  /// not offloaded.
  TaskId add_activations_offload(PassGraph& g, size_t chunk, TaskId computed);
  // The next three functions are for backward.
  /// Adds the task inputs.fetch and returns it. Returns no_task if T_DI was not offloaded.
  TaskId add_inputs_fetch(PassGraph& g, size_t chunk);
  /// Adds the task activations.fetch, which starts after the task `after`. Returns the task, or no_task if T_M was not
  /// offloaded.
  TaskId add_activations_fetch(PassGraph& g, size_t chunk, TaskId after);
  /// Moves the fetched activations of a chunk to the caller.
  ChunkActivations take(size_t chunk) { return std::exchange(on_device_[chunk], {}); }

 private:
  static TaskId add(PassGraph& g, std::vector<TaskId> after, std::string_view name, size_t chunk, int64_t width,
                    std::function<void(Stream&)> copy);

  const bool inputs_, activations_;
  const int64_t activation_width_;
  // Activations of each chunk while they are on the device. Forward stores T_M here between the tasks `experts` and
  // activations.offload. Backward stores T_DI and T_M here between the tasks that fetch them and the task `experts`.
  std::vector<ChunkActivations> on_device_;
  struct Copies {
    std::shared_ptr<autograd::SavedTensor> inputs, gate_up;
  };
  std::vector<Copies> offloaded_;
  std::unique_ptr<autograd::SavePolicy> policy_;
};

}  // namespace hexad::moe
