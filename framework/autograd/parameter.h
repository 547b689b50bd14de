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

/// Initial values of a parameter: a pure function of seed, name and the element's global index, so that they do not
/// depend on the layout.
struct Init {
  enum class Kind : uint8_t { normal, constant } kind = Kind::normal;
  double value = 0.02;  // standard deviation, or the constant
};

/// The tensors that a parameter is stacked of: entry i along `dim` is tensor names[i], which has no such dimension. Its
/// initial values are those that the tensor alone would get. Older checkpoints have these tensors in place of the
/// parameter.
struct Stack {
  int dim = 0;
  std::vector<std::string> names{};  // of parameters; empty: the parameter is one tensor
};

/// A weight [..., N, D] as the matrix [... N, D] that matmuls take: stacked tensors give their outputs side by side.
inline Tensor matrix_of(const Tensor& w) { return w.rank() > 2 ? w.reshape({-1, w.dim(-1)}) : w; }

/// A parameter's weights, in memory for as long as this exists.
class HeldWeight {
 public:
  HeldWeight() = default;
  explicit HeldWeight(const Tensor& weights, GatheredWeights gathered = {})
      : weights_(weights), gathered_(std::move(gathered)) {}

  bool defined() const { return weights_.defined(); }
  /// Ready to be read on `stream`. Not collective.
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
    bool decay = true;  // weight decay applies (not to norms and biases)
    Stack stack{};
  };

  Parameter(Spec spec, Device device);

  const std::string& name() const { return spec_.name; }
  const Spec& spec() const { return spec_; }
  const Placement& placement() const { return spec_.placement; }
  const Shape& global_shape() const { return spec_.global_shape; }
  Placement::Region region() const { return spec_.placement.region(spec_.global_shape); }

  /// Shape of the local weights.
  const Shape& shape() const { return shape_; }
  Dtype dtype() const { return spec_.dtype; }

  /// The local weights, kept in memory while the result exists: for work that reads them more than once, or in an order
  /// that depends on data. Starts to gather them if they are not there, ordered on `stream`. Where weights are gathered
  /// for use, hold() and use() are collective: ranks that share parameters call them for the same ones in the same
  /// order.
  HeldWeight hold(Stream& stream);
  /// The local weights, ready to be read on `stream` once. Ops call this in every pass and never keep the tensor, since
  /// the weights may leave memory at the next use() of another parameter.
  Tensor use(Stream& stream) { return hold(stream).on(stream); }
  /// True if the local weights are in memory all the time.
  bool weights_stay() const { return weight_storage_ == nullptr; }
  /// For tests and for callers who know that the weights are in memory. Throws std::logic_error where they are gathered
  /// for use.
  const Tensor& local();
  /// Draws the initial values.
  void initialize(uint64_t seed);

  /// Main gradient of the local weights, in the accumulator dtype. Allocated at first use unless bound before.
  const Tensor& gradient();
  bool has_gradient() const { return written_; }
  /// Puts the gradient into memory owned by somebody else (a reduction bucket).
  void bind_gradient(const Tensor& memory);
  /// Makes the next contribution overwrite the gradient: zeroing it costs nothing.
  void clear_gradient() { written_ = false; }
  /// Says whether the caller's contribution replaces or adds; the caller must then write it. Makes sure that the
  /// gradient has memory.
  Write next_write() {
    gradient();
    return std::exchange(written_, true) ? Write::add : Write::replace;
  }
  /// For contributions that can only add: zeroes the memory if nothing was written yet.
  const Tensor& gradient_to_add(Stream& stream);
  /// Memory to which the caller must write one of a micro-batch's `contributions`, and whether it replaces or adds. A
  /// single contribution goes straight to where the gradient is kept, rounded if that is in the dtype of the weights.
  GradientTarget next_product(int64_t contributions = 1);

  /// This rank's shard of the local weights. The ranks that sum the gradient have one each: a rank counts the gradient
  /// of its shard in the norm, and with ZeRO owns the shard. Before sharding it is all of the local weights.
  FlatRange share() const { return sharding_ ? sharding_->share : whole(); }
  bool sharded() const { return sharding_.has_value(); }
  /// True if this rank counts the gradient of its share in the global norm.
  bool counts() const { return !sharding_ || sharding_->counts; }
  /// Range that this rank updates and saves: the local weights or, with ZeRO, its shard of them.
  FlatRange owned() const { return owns_share_only() ? share() : whole(); }
  bool owns_share_only() const { return sharding_ && sharding_->owns_share_only; }
  /// Owned weights and their gradient, flat. The gradient may be read once it is complete.
  Tensor owned_weights();
  Tensor owned_gradient(Stream& stream);

  // For data parallelism (parallel/dp), which may hold this memory in flat buckets.
  struct Sharding {
    FlatRange share;
    bool owns_share_only = false;
    bool counts = true;  // other groups of ranks may hold the same piece, with the same gradient: one of them counts
  };
  void shard(const Sharding& sharding);
  /// The local weights lie in `memory`.
  void bind_weights(const Tensor& memory);
  void bind_owned_weights(const Tensor& flat) { owned_weights_ = flat; }
  void bind_owned_gradient(const Tensor& flat) { owned_gradient_ = flat; }
  /// From now on `storage`, which is not owned, gathers the weights for use.
  void gather_weights_by(ParameterStorage& storage) { weight_storage_ = &storage; }
  /// From now on `storage`, which is not owned, gives memory to the gradient; null: the gradient has its own, or what
  /// is bound.
  void store_gradient_in(ParameterStorage* storage) { gradient_storage_ = storage; }
  /// Forgets memory that was bound; its owner may use it again.
  void release_weights() { local_ = {}; }
  void release_gradient() { gradient_ = {}, clear_gradient(); }

 private:
  FlatRange whole() const { return {0, shape_.numel()}; }

  Spec spec_;
  Shape shape_;
  Device device_;
  Tensor local_;  // allocated at first use unless bound before, as the gradient is
  Tensor gradient_, owned_weights_, owned_gradient_;
  ParameterStorage *weight_storage_ = nullptr, *gradient_storage_ = nullptr;  // null: own or bound memory
  std::optional<Sharding> sharding_;
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
