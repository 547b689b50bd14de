// A trainable tensor with its placement on the mesh and its main gradient.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/autograd/parameter_storage.h"
#include "framework/base/flat_range.h"
#include "framework/base/placement.h"

namespace hexad::autograd {

using base::Dtype;
using base::FlatRange;
using base::Placement;
using base::Shape;
using device::Device;

/// Rule for the initial values of a parameter. Each value depends only on the seed, the parameter's name and the
/// element's global index, not on the parallel layout.
struct Init {
  enum class Kind : uint8_t { normal, constant } kind = Kind::normal;
  double value = 0.02;  // standard deviation, or the constant
};

/// Tensors that are stacked into one parameter. Entry i along dimension `dim` is tensor names[i], which lacks this
/// dimension. Each entry gets the same initial values as a separate tensor of its name. Older checkpoints contain the
/// separate tensors in place of the parameter.
struct Stack {
  int dim = 0;
  std::vector<std::string> names{};  // empty: the parameter is a single tensor
};

/// Returns a weight [..., N, D] as the matrix [... N, D] for matrix products. The outputs of stacked tensors are
/// adjacent columns of the product.
inline Tensor matrix_of(const Tensor& w) { return w.rank() > 2 ? w.reshape({-1, w.dim(-1)}) : w; }

/// Weights of a parameter, which stay in memory while this object exists.
class HeldWeight {
 public:
  HeldWeight() = default;
  explicit HeldWeight(const Tensor& weights, GatheredWeights gathered = {})
      : weights_(weights), gathered_(std::move(gathered)) {}

  bool defined() const { return weights_.defined(); }
  /// Makes `stream` wait until the weights are gathered, and returns them. Not collective.
  Tensor on(Stream& stream) const;

 private:
  Tensor weights_;
  GatheredWeights gathered_;
};

class Parameter {
 public:
  struct Spec {
    std::string name;
    Shape global_shape;
    Placement placement;
    Dtype dtype = Dtype::f32;
    Init init;
    bool decay = true;  // true if weight decay applies (not to norms and biases)
    Stack stack{};
    bool frozen = false;  // true if training does not change the weights; they then have no gradient
  };

  Parameter(Spec spec, Device device);

  const std::string& name() const { return spec_.name; }
  const Spec& spec() const { return spec_; }
  const Placement& placement() const { return spec_.placement; }
  const Shape& global_shape() const { return spec_.global_shape; }
  Placement::Region region() const { return spec_.placement.region(spec_.global_shape); }

  /// Returns the shape of the local weights.
  const Shape& shape() const { return shape_; }
  Dtype dtype() const { return spec_.dtype; }
  Device device() const { return device_; }
  /// True if training changes the weights. An op computes no gradient of a frozen parameter. If an op does so
  /// nevertheless, the gradient has temporary memory, and nothing reads it.
  bool trainable() const { return !spec_.frozen; }

  /// Returns the local weights and keeps them in memory while the result exists. Call it if the weights are read more
  /// than once, or in an order that depends on data. If the weights are not in memory, starts to gather them in the
  /// order of `stream`. hold() and use() are then collective: all ranks that share the parameters must call them for
  /// the same parameters in the same order.
  HeldWeight hold(Stream& stream);
  /// Returns the local weights for one read on `stream`. Ops call this in every pass and must not store the result,
  /// because the next use() of another parameter may free these weights.
  Tensor use(Stream& stream) { return hold(stream).on(stream); }
  /// True if the local weights are always in memory.
  bool weights_stay() const { return !weight_storage_ || weight_storage_->weights_stay(*this); }
  /// Returns the local weights without gathering them or waiting for them. Throws std::logic_error if the weights are
  /// gathered at each use.
  const Tensor& local();
  /// Writes the initial values, drawn from `seed`, to the local weights.
  void initialize(uint64_t seed);

  /// Returns the main gradient of the local weights, in the accumulator dtype. If no memory is bound, allocates it.
  const Tensor& gradient();
  bool has_gradient() const { return written_; }
  /// Makes the gradient use `memory`, which another object owns (a reduction bucket).
  void bind_gradient(const Tensor& memory);
  /// Makes the next contribution replace the gradient, whose memory then need not be zeroed.
  void clear_gradient() { written_ = false; }
  /// Returns the mode in which the caller must write the next contribution: replace the gradient or add to it.
  /// Allocates memory for the gradient if it has none.
  Write next_write() {
    gradient();
    return std::exchange(written_, true) ? Write::add : Write::replace;
  }
  /// Returns the gradient for contributions that are always added. If nothing has been written yet, first zeroes the
  /// memory.
  const Tensor& gradient_to_add(Stream& stream);
  /// Returns the memory for one of the `contributions` that a micro-batch makes to the gradient, and the mode in which
  /// the caller must write it. If there is only one contribution, the storage may provide memory in the dtype of the
  /// weights. The contribution is then rounded.
  GradientTarget next_gradient_target(int64_t contributions = 1);

  /// Returns this rank's shard of the local weights, as a range of flat indices. The ranks that sum the same gradient
  /// have one shard each. A rank adds the gradient of its shard to the global norm. With ZeRO, it also owns the shard.
  /// Without sharding, the shard is all local weights.
  FlatRange share() const { return sharding_ ? sharding_->share : whole(); }
  bool sharded() const { return sharding_.has_value(); }
  /// True if this rank adds the gradient of its shard to the global norm.
  bool counts() const { return !sharding_ || sharding_->counts; }
  /// Returns the range of flat indices that this rank updates and saves: with ZeRO its shard, otherwise all local
  /// weights.
  FlatRange owned() const { return owns_share_only() ? share() : whole(); }
  bool owns_share_only() const { return sharding_ && sharding_->owns_share_only; }
  /// Return the owned weights and their gradient as flat tensors. Read the gradient only once it is complete.
  Tensor owned_weights();
  Tensor owned_gradient(Stream& stream);

  // Interface for data parallelism (parallel/dp), which may store weights and gradients in flat buckets.
  struct Sharding {
    FlatRange share;
    bool owns_share_only = false;
    bool counts = true;  // true in exactly one of the groups of ranks with the same weights
  };
  void shard(const Sharding& sharding);
  /// Makes the local weights use `memory`.
  void bind_weights(const Tensor& memory);
  void bind_owned_weights(const Tensor& flat) { owned_weights_ = flat; }
  void bind_owned_gradient(const Tensor& flat) { owned_gradient_ = flat; }
  /// Makes each use from now on ask `storage` for the weights, which may gather them. Does not own `storage`.
  void gather_weights_by(ParameterStorage& storage) { weight_storage_ = &storage; }
  /// Makes `storage` provide the gradient's memory from now on. Does not own `storage`. If `storage` is null, the
  /// parameter uses bound memory or allocates memory.
  void store_gradient_in(ParameterStorage* storage) { gradient_storage_ = storage; }
  /// Release the memory of the weights or of the gradient, which the memory's owner may then reuse.
  void release_weights() { local_ = {}; }
  void release_gradient() { gradient_ = {}, clear_gradient(); }

 private:
  FlatRange whole() const { return {0, shape_.numel()}; }

  Spec spec_;
  Shape shape_;
  Device device_;
  Tensor local_;  // bound, or allocated at first use
  Tensor gradient_, owned_weights_, owned_gradient_;
  ParameterStorage *weight_storage_ = nullptr, *gradient_storage_ = nullptr;  // null: bound or own memory is used
  std::optional<Sharding> sharding_;
  bool written_ = false;
};

/// All parameters of a model on this rank, in order of creation, which is the same on all ranks of a pipeline stage.
class ParameterSet {
 public:
  /// Makes an empty set. Parameters whose names match a shell pattern of `frozen` are not trained.
  explicit ParameterSet(Device device, std::vector<std::string> frozen = {})
      : device_(device), frozen_(std::move(frozen)) {}
  /// Adds a parameter. Throws std::logic_error if another parameter has the same name.
  Parameter& add(Parameter::Spec spec);
  Parameter& find(const std::string& name) const;

  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  size_t size() const { return all_.size(); }
  Device device() const { return device_; }

 private:
  Device device_;
  std::vector<std::string> frozen_;
  std::vector<std::unique_ptr<Parameter>> all_;
};

}  // namespace hexad::autograd
