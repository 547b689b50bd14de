// How layers make their parameters.
#pragma once

#include <string>

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::layers {

using namespace autograd;

/// Named tensors that are not trained but belong to the model's state (balancing biases, expert counts). Replicated on
/// all ranks, saved in checkpoints.
class StateSet {
 public:
  struct State {
    std::string name;
    Tensor tensor;
  };
  void add(std::string name, Tensor tensor) { all_.push_back({std::move(name), std::move(tensor)}); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::vector<State> all_;
};

/// A place in the tree of names: `Linear(config, b / "gate")` makes "layers.0.mlp.gate.weight". Copies are cheap.
class Builder {
 public:
  Builder(ParameterSet& parameters, StateSet& states, const mesh::Mesh& mesh, Dtype dtype)
      : parameters_(&parameters), states_(&states), mesh_(&mesh), dtype_(dtype) {}

  Builder operator/(const std::string& name) const {
    Builder b = *this;
    b.prefix_ = prefix_.empty() ? name : prefix_ + "." + name;
    return b;
  }
  const std::string& prefix() const { return prefix_; }
  const mesh::Mesh& mesh() const { return *mesh_; }
  Device device() const { return parameters_->device(); }
  /// Of weights and activations.
  Dtype dtype() const { return dtype_; }

  struct Options {
    Init init{};
    bool decay = true;
    Placement placement{};
    bool accumulator = false;  // kept in f32 (f64 in an f64 run) whatever the model's dtype
  };
  Parameter& parameter(const std::string& name, const Shape& global_shape, const Options& options) const {
    return parameters_->add({.name = (*this / name).prefix_,
                             .global_shape = global_shape,
                             .placement = options.placement,
                             .dtype = options.accumulator ? accumulator_dtype(dtype_) : dtype_,
                             .init = options.init,
                             .decay = options.decay});
  }
  /// Zeroed, in the accumulator dtype.
  Tensor state(const std::string& name, const Shape& shape) const {
    Tensor t = Tensor::zeros(shape, accumulator_dtype(dtype_), device(), Category::parameter);
    states_->add((*this / name).prefix_, t);
    return t;
  }

 private:
  ParameterSet* parameters_;
  StateSet* states_;
  const mesh::Mesh* mesh_;
  Dtype dtype_;
  std::string prefix_;
};

}  // namespace hexad::layers
