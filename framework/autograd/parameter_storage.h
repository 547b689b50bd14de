// Memory of parameters that another object owns.
#pragma once

#include <memory>

#include "framework/kernels/kernel_table.h"

namespace hexad::autograd {

using device::Stream;
using kernels::Write;
using tensor::Tensor;

class Parameter;

/// Weights that are gathered for use (ZeRO-3). They may be read once `arrived` is done. They stay in memory at least as
/// long as `stay` exists.
struct GatheredWeights {
  std::shared_ptr<const void> stay;
  device::Event arrived;
};

/// Memory for a part of a gradient, and the mode of the write: the part replaces the contents or is added to them.
struct GradientTarget {
  Tensor memory;
  Write write;
};

/// Owner of the memory of weights or gradients, such as the buckets of data parallelism (parallel/dp). By default, each
/// method acts like a parameter with memory of its own.
///
/// Lifetime: parameters refer to their storage and do not own it. The storage outlives their last use, or the call that
/// gives them another storage. Threads: parameters call the storage on the rank's thread, which issues all work, so a
/// storage needs no lock.
class ParameterStorage {
 public:
  virtual ~ParameterStorage() = default;
  /// Binds p's weights (Parameter::bind_weights) unless they are bound, and starts to fill them, ordered on `stream`.
  /// Every Parameter::hold() calls it. Collective if the storage gathers weights from other ranks.
  virtual GatheredWeights gather_weights(Parameter& p, Stream& stream);
  /// Binds memory for p's main gradient (Parameter::bind_gradient). Called if none is bound. If the storage binds none,
  /// the parameter allocates its own.
  virtual void allocate_gradient(Parameter& p);
  /// Returns the memory of a micro-batch's only contribution to p's gradient. The caller must write it.
  virtual GradientTarget only_contribution(Parameter& p);
};

}  // namespace hexad::autograd
