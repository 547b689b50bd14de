// Factory that creates the parameters and states of layers.
#pragma once

#include <optional>
#include <string>

#include "framework/autograd/parameter.h"
#include "layers/base/layer_names.h"
#include "parallel/cp/context_kind.h"
#include "parallel/mesh/mesh.h"
#include "parallel/tp/tensor_parallel.h"

namespace hexad::layers {

/// Named tensors of the model that are not trained, such as balancing biases and expert counts. All ranks of a pipeline
/// stage hold the same values. Checkpoints contain these tensors.
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

/// Settings for parallel computation in layers, in addition to the mesh.
struct ParallelOptions {
  bool sequence = false;  // true if sequence parallelism is on
  cp::ContextKind context = cp::ContextKind::ring;
  bool deterministic = false;  // true: all kernels give bitwise identical results in every run
};

/// Factory of parameters and states whose names begin with one prefix. The prefix of the builder `b / "gate"` is the
/// prefix of `b`, followed by ".gate". For example, `Linear(config, b / "gate")` makes the parameter
/// "layers.0.mlp.gate.weight" if the prefix of `b` is "layers.0.mlp". A builder holds only pointers, options and the
/// prefix, so it is cheap to copy.
class Builder {
 public:
  Builder(ParameterSet& parameters, StateSet& states, const mesh::Mesh& mesh, Dtype dtype, ParallelOptions options = {})
      : parameters_(&parameters), states_(&states), mesh_(&mesh), dtype_(dtype), options_(options) {}

  Builder operator/(const std::string& name) const {
    Builder b = *this;
    b.prefix_ = prefix_.empty() ? name : prefix_ + "." + name;
    return b;
  }
  const std::string& prefix() const { return prefix_; }
  const mesh::Mesh& mesh() const { return *mesh_; }
  const ParameterSet& parameters() const { return *parameters_; }
  Device device() const { return parameters_->device(); }
  /// Returns the dtype of weights and activations.
  Dtype dtype() const { return dtype_; }

  /// Returns the settings of tensor parallelism for matrix products.
  tp::TensorParallel tensor_parallel() const { return {&(*mesh_)[Axis::tp], options_.sequence}; }
  cp::ContextKind context_kind() const { return options_.context; }
  bool deterministic() const { return options_.deterministic; }

  /// Placement of a parameter that every tp rank holds in full. Each rank applies the parameter to all rows or, under
  /// sequence parallelism, to its own rows. Examples are the gain of a norm and the bias of a row-parallel layer.
  /// parameter() uses this placement by default.
  Placement replicated() const { return options_.sequence ? partial() : Placement{}; }
  /// Placement of a parameter that every tp rank holds in full, but uses only for the rank's own tokens or heads. The
  /// gradient is the sum of the tp ranks' addends.
  Placement partial() const { return {.view = MeshView::dense, .partial = {Axis::tp}}; }
  /// Placement of a parameter that is sharded over tp along `dim`. The number of pieces is `pieces` if 0 < `pieces` <
  /// the number of ranks, and otherwise the number of ranks. Neighbouring ranks hold the same piece if there are fewer
  /// pieces than ranks.
  Placement shard(int dim, int64_t pieces = 0) const {
    const int ranks = mesh_->size(Axis::tp), rank = mesh_->coordinate(Axis::tp);
    const int parts = pieces == 0 || pieces >= ranks ? ranks : static_cast<int>(pieces);
    Placement p{.view = MeshView::dense, .shards = {{Axis::tp, dim, parts, rank * parts / ranks}}};
    if (parts < ranks) p.partial = {Axis::tp};
    return p;
  }

  struct Options {
    Init init{};
    bool decay = true;
    std::optional<Placement> placement{};  // default: replicated()
    Stack stack{};
    bool accumulator = false;  // true: stored in the accumulator dtype (f32; in an f64 run, f64)
  };
  Parameter& parameter(const std::string& name, const Shape& global_shape, const Options& options) const {
    return parameters_->add({.name = (*this / name).prefix_,
                             .global_shape = global_shape,
                             .placement = options.placement.value_or(replicated()),
                             .dtype = options.accumulator ? accumulator_dtype(dtype_) : dtype_,
                             .init = options.init,
                             .decay = options.decay,
                             .stack = options.stack});
  }
  /// Adds a state of zeros in the accumulator dtype to the model's StateSet, and returns its tensor.
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
  ParallelOptions options_;
  std::string prefix_;
};

}  // namespace hexad::layers
