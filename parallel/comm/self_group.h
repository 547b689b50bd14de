// A group with a single rank.
#pragma once

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Group of a single rank. Operations with an input copy it to the output; all other operations do nothing. Never
/// initialises MPI.
class SelfGroup final : public ProcessGroup {
 public:
  explicit SelfGroup(TrafficClass traffic = TrafficClass::control, std::string name = "self",
                     std::shared_ptr<TrafficMeter> meter = std::make_shared<TrafficMeter>(), int node = 0)
      : ProcessGroup(traffic, std::move(name), std::move(meter), {node}) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  bool in_one_process() const override { return true; }
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  void connect(Uses, Device) const override {}
  void connect_routes(std::span<const Route>, Device) const override {}
  std::unique_ptr<WindowMemory> window_memory() const override { return nullptr; }

 protected:
  Event start(Operation op, Stream& stream) const override;
  void abort_other_ranks(ExitCode) const override {}
  bool takes_device_tensors() const override { return true; }
};

}  // namespace hexad::comm
