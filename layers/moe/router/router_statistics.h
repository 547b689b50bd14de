// Statistics of the routers of MoE layers.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "framework/kernels/kernel_table.h"

namespace hexad::layers {

using device::Device;
using device::Stream;
using tensor::Tensor;

/// Observations of one MoE layer over the micro-batches since reset(). They are this rank's share; the ranks' shares
/// are summed.
struct RouterStatistics {
  std::vector<int64_t> counts;  // number of tokens that chose each expert, before drops and without padding
  int64_t assignments = 0, dropped = 0;
  double aux_loss = 0, z_loss = 0;  // sums of the unweighted losses over micro-batches

  void reset();
  /// Adds the slots ids [T, K] (i32; -1: empty) and the losses ([1] acc).
  void add_choices(const Tensor& ids, Stream& stream);
  /// Adds the same slots after the slots over capacity were dropped.
  void add_kept(const Tensor& ids, Stream& stream);
  void add_aux_loss(const Tensor& loss, Stream& stream) { add_loss(0, loss, stream); }
  void add_z_loss(const Tensor& loss, Stream& stream) { add_loss(1, loss, stream); }

  /// Sums on a device, used if the host cannot read the values that are added. The owner of the tensors zeroes and
  /// reads them.
  struct OnDevice {
    Tensor counts;  // [2, E] i64: slots chosen, slots kept
    Tensor losses;  // [2] f64: aux_loss, z_loss
  };
  void add_up_in(OnDevice sums) { sums_ = std::move(sums); }
  /// Replaces the sums by values that the owner of the tensors has read.
  void take(std::span<const int64_t> read_counts, std::span<const double> read_losses);

 private:
  void count(int64_t row, const Tensor& ids, Stream& stream);
  void add_loss(int64_t which, const Tensor& loss, Stream& stream);
  OnDevice sums_;
  int64_t kept_ = 0;
  bool some_may_be_dropped_ = false;  // true once add_kept() was called
};

/// Statistics of all MoE layers of a model, with memory on its device.
class ModelStatistics {
 public:
  ModelStatistics(int64_t moe_layers, int64_t experts, Device device);
  void reset(Stream& stream);
  /// Reads the sums of the device since the last reset. Does nothing if the host keeps the sums.
  void read(Stream& stream);

  std::vector<RouterStatistics> layers;

 private:
  Tensor counts_, losses_;  // [L, 2, E] i64 and [L, 2] f64 if the host cannot read them, otherwise undefined
};

}  // namespace hexad::layers
