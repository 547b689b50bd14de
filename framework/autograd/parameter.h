// Parameters of a model: tensors with a placement on the mesh and a main gradient, in which the contributions of the
// micro-batches are summed.
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

/// Rule for the initial values of a parameter. A value depends only on the rule, the seed, the parameter's name and the
/// element's global index, and is then rounded to the dtype. The value does not depend on the parallel layout. For
/// stacked tensors, the rule uses the name of the single tensor and the index in this tensor.
struct Init {
  enum class Kind : uint8_t { normal, constant } kind = Kind::normal;
  double value = 0.02;  // normal: the standard deviation (the mean is 0); constant: the value
};

/// Tensors that are stacked into one parameter. Entry i along dimension `dim` is tensor names[i], which lacks this
/// dimension. Each entry gets the same initial values as a separate tensor of its name. Older checkpoints may contain
/// the separate tensors in place of the parameter.
struct Stack {
  int dim = 0;
  std::vector<std::string> names{};  // empty: the parameter is a single tensor
};

/// Returns a weight [..., N, D] as a matrix [M, D] for matrix products. M is the number of its rows: all dimensions but
/// the last, multiplied. In the result of a matrix product, the outputs of stacked tensors are adjacent columns.
inline Tensor matrix_of(const Tensor& w) { return w.rank() > 2 ? w.reshape({-1, w.dim(-1)}) : w; }

/// Weights of a parameter, which remain in memory while this object exists.
class HeldWeight {
 public:
  HeldWeight() = default;
  explicit HeldWeight(const Tensor& weights, GatheredWeights gathered = {})
      : weights_(weights), gathered_(std::move(gathered)) {}

  bool defined() const { return weights_.defined(); }
  /// Makes `stream` wait until the weights are updated and gathered, and returns the weights. The call is not
  /// collective. Throws std::logic_error if the object is default-constructed.
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
    bool decay = true;  // true if weight decay applies
    Stack stack{};
    bool frozen = false;  // true if training does not change the weights
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
  /// True if training changes the weights. Ops need not compute the gradient of a frozen parameter. If a kernel
  /// computes this gradient together with other gradients, nothing reads the result.
  bool trainable() const { return !spec_.frozen; }

  /// Returns the local weights and keeps them in memory while the result exists. Call hold() instead of use() if the
  /// weights are read more than once, or together with weights of other parameters. Also call hold() if the order of
  /// the reads depends on data. Starts to gather the weights in the order of `stream` if they are not in memory. hold()
  /// and use() are collective if weights_are_resident() is false: all ranks that share the parameters must call them
  /// for the same parameters in the same order.
  HeldWeight hold(Stream& stream);
  /// Returns the local weights for one read on `stream`. Ops call use() in every pass. They must not store the result,
  /// because the next use() or hold() of another parameter may free these weights.
  Tensor use(Stream& stream) { return hold(stream).on(stream); }
  /// True if the local weights are always in memory.
  bool weights_are_resident() const { return !weight_storage_ || weight_storage_->weights_are_resident(*this); }
  /// Returns the local weights without gathering them or waiting for them. Allocates memory if weights_are_resident()
  /// is true and no memory is bound. Throws std::logic_error if the weights are gathered at each use and are not in
  /// memory now.
  const Tensor& local();
  /// Writes the initial values (Spec::init, with the random seed `seed`) to the local weights. On a device without
  /// memory, only allocates the weights.
  void initialize(uint64_t seed);

  /// Returns the main gradient of the local weights, in the accumulator dtype. If the gradient has no memory, its
  /// storage (gradient_storage()) binds memory. If there is no storage, the parameter allocates memory. New memory is
  /// uninitialised.
  const Tensor& gradient();
  /// True if a contribution has been requested by next_write() since the gradient was last cleared.
  bool has_gradient() const { return written_; }
  /// Makes the gradient use `memory`, such as a part of a reduction bucket, and clears the gradient (clear_gradient()).
  void bind_gradient(const Tensor& memory);
  /// Makes the next contribution replace the gradient, so the memory need not be zeroed.
  void clear_gradient() { written_ = false; }
  /// Returns the mode in which the caller must write the next contribution: replace the gradient or add to it.
  /// Allocates memory for the gradient if it has none.
  Write next_write() {
    gradient();
    return std::exchange(written_, true) ? Write::add : Write::replace;
  }
  /// Returns the gradient for contributions that are always added. First zeroes the gradient's memory on `stream` if
  /// the gradient is clear. After this call, next_write() also returns Write::add.
  const Tensor& gradient_to_add(Stream& stream);
  /// Returns the memory for a contribution to the gradient, and the mode in which the caller must write the
  /// contribution. `contributions` is the number of contributions that a micro-batch makes. If this number is 1, the
  /// storage may provide memory in the dtype of the weights. The caller then rounds the contribution to this dtype.
  GradientTarget next_gradient_target(int64_t contributions = 1);

  /// Returns this rank's shard of the local weights, as a range of flat indices. The ranks that sum the same gradient
  /// have one shard each. If counts() is true, the rank adds the gradient of its shard to the global norm. If
  /// owns_share_only() is true, as with ZeRO, the rank owns only its shard. Without sharding, the shard is all local
  /// weights.
  FlatRange share() const { return sharding_ ? sharding_->share : whole(); }
  bool sharded() const { return sharding_.has_value(); }
  /// True if this rank adds the gradient of its shard to the global norm.
  bool counts() const { return !sharding_ || sharding_->counts; }
  /// Returns the range of flat indices that this rank updates: its shard if owns_share_only(), otherwise all local
  /// weights.
  FlatRange owned() const { return owns_share_only() ? share() : whole(); }
  bool owns_share_only() const { return sharding_ && sharding_->owns_share_only; }
  /// Return the weights in owned() and their gradient as flat tensors. Read the gradient only after it is complete.
  Tensor owned_weights();
  Tensor owned_gradient(Stream& stream);

  // Interface for data parallelism (parallel/dp), which may store weights and gradients in flat buckets.
  struct Sharding {
    FlatRange share;
    bool owns_share_only = false;
    bool counts = true;  // see counts(); true in one of the groups of ranks that hold the same weights
  };
  void shard(const Sharding& sharding);
  /// Makes the local weights use `memory`.
  void bind_weights(const Tensor& memory);
  void bind_owned_weights(const Tensor& flat) { owned_weights_ = flat; }
  void bind_owned_gradient(const Tensor& flat) { owned_gradient_ = flat; }
  /// Makes each later hold() and use() request the weights from `storage`, which may gather them. Does not own
  /// `storage`.
  void gather_weights_by(WeightStorage& storage) { weight_storage_ = &storage; }
  /// Returns the storage from which hold() and use() request the weights; null: none.
  const WeightStorage* weight_storage() const { return weight_storage_; }
  /// Makes `storage` provide memory when the gradient has none, and for next_gradient_target(1). If `storage` is null,
  /// the parameter uses bound memory or allocates memory. Does not own `storage`.
  void store_gradient_in(GradientStorage* storage) { gradient_storage_ = storage; }
  /// Returns the storage of store_gradient_in(); null: none.
  GradientStorage* gradient_storage() const { return gradient_storage_; }
  /// Release the memory of the weights or of the gradient. Another owner of this memory may then reuse it.
  /// release_gradient() also clears the gradient.
  void release_weights() { local_ = {}; }
  void release_gradient() { gradient_ = {}, clear_gradient(); }

 private:
  FlatRange whole() const { return {0, shape_.numel()}; }

  Spec spec_;
  Shape shape_;
  Device device_;
  Tensor local_;  // bound by bind_weights(), or allocated by local()
  Tensor gradient_, owned_weights_, owned_gradient_;
  WeightStorage* weight_storage_ = nullptr;      // null: bound or own memory is used
  GradientStorage* gradient_storage_ = nullptr;  // null: bound or own memory is used
  std::optional<Sharding> sharding_;
  bool written_ = false;
};

/// Parameters of a model on this rank, in order of creation. The order must be the same on all ranks of a pipeline
/// stage.
class ParameterSet {
 public:
  /// Makes an empty set. add() freezes the parameters whose names match a shell pattern of `frozen`.
  explicit ParameterSet(Device device, std::vector<std::string> frozen = {})
      : device_(device), frozen_(std::move(frozen)) {}
  /// Adds a parameter. Throws std::logic_error if another parameter has the same name. Also throws std::logic_error if
  /// the shards or the stack of `spec` do not fit the shape of `spec`.
  Parameter& add(Parameter::Spec spec);
  /// Returns the parameter with this name. Throws std::logic_error if there is none.
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
