// A trainable tensor with its place on the mesh and its main gradient.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/placement.h"
#include "framework/kernels/pack_cache.h"

namespace hexad::autograd {

using namespace kernels;

/// How a parameter's first values are drawn: a pure function of seed, name and the element's global index, so that they
/// do not depend on the layout.
struct Init {
  enum class Kind : uint8_t { normal, constant } kind = Kind::normal;
  double value = 0.02;  // standard deviation, or the constant
};

class Parameter {
 public:
  struct Spec {
    std::string name;
    Shape global_shape;
    Placement placement;
    Dtype dtype = Dtype::f32;
    Init init;
    bool decay = true;  // weight decay applies (not to norms and biases)
  };

  Parameter(Spec spec, Device device);

  const std::string& name() const { return spec_.name; }
  const Spec& spec() const { return spec_; }
  const Placement& placement() const { return spec_.placement; }
  const Shape& global_shape() const { return spec_.global_shape; }
  Placement::Region region() const { return spec_.placement.region(spec_.global_shape); }

  /// The local weights, ready to be read on `stream`. Ops call this in every pass and never keep the tensor.
  Weight use(Stream&) const { return {local_, &packs_}; }
  /// For those who own the values: optimizer, checkpoints, tests.
  const Tensor& local() const { return local_; }
  /// Must follow every change of the values: packed copies are dropped.
  void changed() { packs_.clear(); }
  /// Draws the initial values.
  void initialize(uint64_t seed);

  /// Main gradient of the local weights, in the accumulator dtype. Allocated at first use unless bound before.
  const Tensor& gradient();
  bool has_gradient() const { return written_; }
  /// Puts the gradient into memory owned by somebody else (a reduction bucket).
  void bind_gradient(const Tensor& memory);
  /// The next contribution replaces what is there: zeroing a gradient costs nothing.
  void clear_gradient() { written_ = false; }
  /// How the caller must write its contribution, which it then has to do.
  Write next_write() { return std::exchange(written_, true) ? Write::add : Write::replace; }
  /// For contributions that can only add: zeroes the memory if nothing was written yet.
  const Tensor& gradient_to_add(Stream& stream);

 private:
  Spec spec_;
  Tensor local_, gradient_;
  mutable PackCache packs_;
  bool written_ = false;
};

/// All parameters of a model on this rank, in order of creation (the same on all ranks of a pipeline stage).
class ParameterSet {
 public:
  explicit ParameterSet(Device device) : device_(device) {}
  /// Throws std::logic_error for a name that exists.
  Parameter& add(Parameter::Spec spec);
  Parameter& find(const std::string& name) const;

  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  size_t size() const { return all_.size(); }
  Device device() const { return device_; }

 private:
  Device device_;
  std::vector<std::unique_ptr<Parameter>> all_;
};

}  // namespace hexad::autograd
