// Interfaces of objects that own the memory of parameters' weights or gradients.
#pragma once

#include <memory>

#include "framework/kernels/kernel_table.h"

namespace hexad::autograd {

using device::Stream;
using kernels::Write;
using tensor::Tensor;

class Parameter;

/// Weights that were requested from their storage. An update of the weights, or their gathering from other ranks, may
/// still be in progress.
struct GatheredWeights {
  std::shared_ptr<const void> stay;  // keeps the weights in memory while it exists; null if they are always in memory
  device::Event arrived;             // done when the weights may be read
};

/// Memory for a contribution to a gradient, and the mode of the write: the contribution replaces the contents or is
/// added to them.
struct GradientTarget {
  Tensor memory;
  Write write;
};

/// Owner of the memory of weights, such as the buckets of data parallelism (parallel/dp/weight_buckets.h). Without an
/// owner, a parameter allocates its weights, and they are always in memory.
///
/// Lifetime: parameters refer to their storage and do not own it. The storage must outlive the last call by a parameter
/// that refers to it. Threads: parameters call the storage only on the rank's thread, so a storage needs no lock.
class WeightStorage {
 public:
  virtual ~WeightStorage() = default;
  /// Binds the weights of `p` (Parameter::bind_weights) if they are not bound yet. Starts to gather the weights in the
  /// order of `stream` if they are not in memory. Every Parameter::hold() calls this function. The call is collective
  /// if weights_are_resident() is false.
  virtual GatheredWeights gather_weights(Parameter& p, Stream& stream) = 0;
  /// True if the weights of `p` are always in memory. In this case, gather_weights() is not collective and gathers
  /// nothing. It only returns the event after which the weights may be read.
  virtual bool weights_are_resident(const Parameter& p) const = 0;
};

/// Owner of the memory of gradients, such as the buckets of data parallelism (parallel/dp/gradient_buckets.h). Without
/// an owner, a parameter allocates its gradient. Lifetime and threads: see WeightStorage.
class GradientStorage {
 public:
  virtual ~GradientStorage() = default;
  /// Binds memory for the main gradient of `p` (Parameter::bind_gradient). A parameter calls this function when its
  /// gradient is needed and has no memory.
  virtual void allocate_gradient(Parameter& p) = 0;
  /// Returns the memory for the only contribution of a micro-batch to the gradient of `p`, and the mode of the write.
  /// The caller must write the contribution.
  virtual GradientTarget only_contribution(Parameter& p) = 0;
};

}  // namespace hexad::autograd
