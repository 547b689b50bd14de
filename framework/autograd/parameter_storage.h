// Memory of parameters that is owned by another object.
#pragma once

#include <memory>

#include "framework/kernels/kernel_table.h"

namespace hexad::autograd {

using device::Stream;
using kernels::Write;
using tensor::Tensor;

class Parameter;

/// Weights that are gathered from other ranks. They may be read once `arrived` is complete. They stay in memory at
/// least while `stay` exists; weights that are always in memory have no `stay`.
struct GatheredWeights {
  std::shared_ptr<const void> stay;
  device::Event arrived;
};

/// Memory for a contribution to a gradient, and the mode of the write: the contribution replaces the contents or is
/// added to them.
struct GradientTarget {
  Tensor memory;
  Write write;
};

/// Owner of the memory of weights or gradients, such as the buckets of data parallelism (parallel/dp). The default
/// implementation of each method lets the parameter use its own memory.
///
/// Lifetime: parameters refer to their storage and do not own it. The storage must outlive its last use by a parameter,
/// or remain until the parameter is given another storage. Threads: parameters call the storage only on the rank's
/// thread, so a storage needs no lock.
class ParameterStorage {
 public:
  virtual ~ParameterStorage() = default;
  /// Binds the weights of `p` (Parameter::bind_weights) unless they are already bound. Starts to gather them, in the
  /// order of `stream`. Called by every Parameter::hold(). Collective if the storage gathers weights from other ranks.
  virtual GatheredWeights gather_weights(Parameter& p, Stream& stream);
  /// True if the weights of `p` are always in memory. gather_weights() then gathers nothing and is not collective: it
  /// returns the event after which the weights may be read.
  virtual bool weights_stay(const Parameter&) const { return false; }
  /// Binds memory for the main gradient of `p` (Parameter::bind_gradient). Called if no memory is bound. If the storage
  /// does not bind memory, the parameter allocates it.
  virtual void allocate_gradient(Parameter& p);
  /// Returns the memory for the only contribution of a micro-batch to the gradient of `p`. The caller must write it.
  virtual GradientTarget only_contribution(Parameter& p);
};

}  // namespace hexad::autograd
