// A trainable tensor with its place on the mesh and its main gradient.
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

/// Initial values of a parameter: a pure function of seed, name and the element's global index. They do not depend on
/// the layout.
struct Init {
  enum class Kind : uint8_t { normal, constant } kind = Kind::normal;
  double value = 0.02;  // standard deviation, or the constant
};

/// Names of tensors that are stacked into one parameter. Entry i along `dim` is tensor names[i], which lacks that
/// dimension. Each entry gets the initial values of the separate tensor. Older checkpoints have these tensors in place
/// of the parameter.
struct Stack {
  int dim = 0;
  std::vector<std::string> names{};  // names of the tensors; empty: the parameter is one tensor
};

/// Returns a weight [..., N, D] as the matrix [... N, D] for matmuls. The outputs of stacked tensors are side by side.
inline Tensor matrix_of(const Tensor& w) { return w.rank() > 2 ? w.reshape({-1, w.dim(-1)}) : w; }

/// A parameter's weights, in memory while this object exists.
class HeldWeight {
 public:
  HeldWeight() = default;
  explicit HeldWeight(const Tensor& weights, GatheredWeights gathered = {})
      : weights_(weights), gathered_(std::move(gathered)) {}

  bool defined() const { return weights_.defined(); }
  /// Returns the weights, ready to be read on `stream`. Not collective.
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

  /// Returns the local weights, which stay in memory while the result exists. Meant for work that reads them more than
  /// once, or in an order that depends on data. Starts to gather absent weights, ordered on `stream`. If weights are
  /// gathered for use, hold() and use() are collective: ranks that share parameters call them for the same parameters
  /// in the same order.
  HeldWeight hold(Stream& stream);
  /// Returns the local weights, ready to be read on `stream` once. Ops call this in every pass. They never keep the
  /// tensor, because the weights may leave memory at the next use() of another parameter.
  Tensor use(Stream& stream) { return hold(stream).on(stream); }
  /// True if the local weights are in memory all the time.
  bool weights_stay() const { return weight_storage_ == nullptr; }
  /// Returns the local weights without a gather, for tests and for callers whose weights are in memory. Throws
  /// std::logic_error if the weights are gathered for use.
  const Tensor& local();
  /// Draws the initial values.
  void initialize(uint64_t seed);

  /// Returns the main gradient of the local weights, in the accumulator dtype. Allocates memory at first use if none is
  /// bound.
  const Tensor& gradient();
  bool has_gradient() const { return written_; }
  /// Binds the gradient to memory that another object owns (a reduction bucket).
  void bind_gradient(const Tensor& memory);
  /// Makes the next contribution overwrite the gradient, which avoids zeroing it.
  void clear_gradient() { written_ = false; }
  /// Returns the mode of the caller's next contribution: it replaces the gradient or is added to it. The caller must
  /// then write it. Allocates the gradient's memory if there is none.
  Write next_write() {
    gradient();
    return std::exchange(written_, true) ? Write::add : Write::replace;
  }
  /// Returns the gradient for contributions that can only add. Zeroes its memory if nothing was written yet.
  const Tensor& gradient_to_add(Stream& stream);
  /// Returns the memory for one of the `contributions` that a micro-batch makes, and the mode in which the caller must
  /// write it: replacing or adding. A single contribution is written directly to the gradient's memory. It is rounded
  /// if that memory has the dtype of the weights.
  GradientTarget next_gradient_target(int64_t contributions = 1);

  /// Returns this rank's shard of the local weights. Each rank that sums the gradient has one shard. A rank counts the
  /// gradient of its shard in the norm, and with ZeRO owns the shard. Before sharding, the shard is all of the local
  /// weights.
  FlatRange share() const { return sharding_ ? sharding_->share : whole(); }
  bool sharded() const { return sharding_.has_value(); }
  /// True if this rank counts the gradient of its share in the global norm.
  bool counts() const { return !sharding_ || sharding_->counts; }
  /// Returns the range that this rank updates and saves: the local weights or, with ZeRO, its shard.
  FlatRange owned() const { return owns_share_only() ? share() : whole(); }
  bool owns_share_only() const { return sharding_ && sharding_->owns_share_only; }
  /// Return the owned weights and their gradient, flat. The gradient may be read once it is complete.
  Tensor owned_weights();
  Tensor owned_gradient(Stream& stream);

  // Interface for data parallelism (parallel/dp), which may hold this memory in flat buckets.
  struct Sharding {
    FlatRange share;
    bool owns_share_only = false;
    bool counts = true;  // true in exactly one of the groups of ranks that have the same piece and gradient
  };
  void shard(const Sharding& sharding);
  /// Binds the local weights to `memory`.
  void bind_weights(const Tensor& memory);
  void bind_owned_weights(const Tensor& flat) { owned_weights_ = flat; }
  void bind_owned_gradient(const Tensor& flat) { owned_gradient_ = flat; }
  /// Makes `storage`, which is not owned, gather the weights for use from now on.
  void gather_weights_by(ParameterStorage& storage) { weight_storage_ = &storage; }
  /// Makes `storage`, which is not owned, provide the gradient's memory from now on. If null, the gradient uses bound
  /// memory or memory of its own.
  void store_gradient_in(ParameterStorage* storage) { gradient_storage_ = storage; }
  /// Unbind the memory of the weights or of the gradient, which its owner may then reuse.
  void release_weights() { local_ = {}; }
  void release_gradient() { gradient_ = {}, clear_gradient(); }

 private:
  FlatRange whole() const { return {0, shape_.numel()}; }

  Spec spec_;
  Shape shape_;
  Device device_;
  Tensor local_;  // allocated at first use if not bound before, like the gradient
  Tensor gradient_, owned_weights_, owned_gradient_;
  ParameterStorage *weight_storage_ = nullptr, *gradient_storage_ = nullptr;  // null: own or bound memory
  std::optional<Sharding> sharding_;
  bool written_ = false;
};

/// All parameters of a model on this rank, in order of creation. The order is the same on all ranks of a pipeline
/// stage.
class ParameterSet {
 public:
  explicit ParameterSet(Device device) : device_(device) {}
  /// Adds a parameter. Throws std::logic_error if the name exists.
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
