// The eager tape: the recorded ops, the tensors that each op saves, and the gradients. Each micro-batch of a pipeline
// stage owns its own tape; there is no global state.
#pragma once

#include <algorithm>
#include <any>
#include <deque>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/autograd/saved.h"

namespace hexad::autograd {

using tensor::Storage;

/// A tensor and its id on a tape. No gradient is computed for the tensor if id < 0.
struct Value {
  Tensor data;
  int32_t id = -1;

  bool wants_gradient() const { return id >= 0; }
  const Shape& shape() const { return data.shape(); }
  Device device() const { return data.device(); }
};

class Replay;

/// Context in which a pullback runs.
class Backward {
 public:
  Stream& stream;

  /// Adds `gradient` to the gradient of the op's input `index`. Does nothing if this input needs no gradient.
  void accumulate(size_t index, Tensor gradient);
  /// Like accumulate(index, gradient), for a kernel that can add its gradient to an existing one, which is cheaper than
  /// a separate addition. The gradient has `shape` and `dtype`. `write` must compute out = gradient + so_far. `so_far`
  /// may be `out` itself; it is undefined if there is no gradient yet. `write` is not called if the input needs no
  /// gradient.
  void accumulate(size_t index, const Shape& shape, Dtype dtype,
                  const std::function<void(const Tensor& out, const Tensor& so_far)>& write);
  /// Returns the gradient accumulated so far for input `index`, and resets it; undefined if there is none.
  Tensor take_gradient(size_t index);
  /// True if input `index` needs a gradient. If not, the pullback may skip computing it.
  bool wants(size_t index) const;
  /// Returns the gradient of output `index` of an op with several outputs; undefined if no later result depends on that
  /// output.
  const Tensor& output_gradient(size_t index) const;
  /// Passes `value` to this op's weight pullback. Call it only in a pullback. The replay owns the value until the
  /// weight pullback runs.
  template <class T>
  void hand_to_weights(T value) {
    handed_ = std::move(value);
  }
  /// Returns the value of type T that this op's pullback passed to hand_to_weights(). Call it only in a weight
  /// pullback. Throws std::logic_error if there is no such value.
  template <class T>
  T take_from_pullback() {
    T* value = std::any_cast<T>(&handed_);
    require(value != nullptr,
            "[tape] a weight pullback takes a value that its pullback did not pass to hand_to_weights()");
    T taken = std::move(*value);
    handed_.reset();
    return taken;
  }
  /// True if weight-gradient work is delayed until Replay::step_weights() is called.
  bool weights_delayed() const;
  /// Runs `work`, the weight-gradient work of a composite op. If weight-gradient work is delayed, appends `work` to the
  /// queue instead.
  void defer(std::function<void()> work);
  /// Runs the pullbacks of the ops that were recorded from node `first` (the value of Tape::size() before them) up to
  /// this op. They run now instead of after this op's pullback. Before the call, this op must accumulate all gradients
  /// of the results of those ops. It must accumulate its other gradients after the call, to preserve the order of
  /// addends.
  void replay_from(size_t first);

 private:
  friend class Replay;
  void check_not_replayed(size_t index) const;
  Device output_device() const;
  Backward(Stream& s, Replay& replay, std::span<const int32_t> inputs, std::span<const Tensor> output_gradients)
      : stream(s), replay_(replay), inputs_(inputs), output_gradients_(output_gradients) {}
  Replay& replay_;
  std::span<const int32_t> inputs_;
  std::span<const Tensor> output_gradients_;
  int32_t replayed_from_ = std::numeric_limits<int32_t>::max();  // lowest id of the results of replayed ops
  std::any handed_;  // value passed from the pullback to the weight pullback
};

/// Computes the gradients of an op's inputs from `dout`, the gradient of the first output.
using Pullback = std::function<void(Backward&, const Tensor& dout, const Saved&)>;

/// The part of an op's backward pass that adds to the gradients of `parameters`. It may run at any time after the
/// pullback. The pullback may pass it a value (Backward::hand_to_weights).
struct WeightPullback {
  std::vector<Parameter*> parameters;
  Pullback run;  // not called if all parameters are frozen

  /// True if at least one parameter is trainable.
  bool trains() const { return std::ranges::any_of(parameters, &Parameter::trainable); }
};

class Tape {
 public:
  enum class Mode : uint8_t {
    record,     // training
    recompute,  // repetition of a training forward pass; statistics are not counted again
    forget,     // evaluation, or a forward pass that will be recomputed
  };

  Tape(Stream& on, SavePolicy& policy, Mode mode = Mode::record, bool recompute_norms = false)
      : stream(on), policy_(policy), mode_(mode), recompute_norms_(recompute_norms) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Stream& stream;

  Mode mode() const { return mode_; }
  bool recording() const { return mode_ != Mode::forget; }
  bool recompute_norms() const { return recompute_norms_; }
  SavePolicy& policy() const { return policy_; }

  /// Adds an input for which a gradient is computed.
  Value leaf(const Tensor& data);

  /// Appends an op. The tape's policy keeps the tensors `saved` until the op's pullbacks have run. An op without a
  /// pullback is not differentiable; backward throws if it reaches such an op.
  Value record(std::string_view name, const Tensor& out, std::initializer_list<Value> inputs,
               const std::vector<Tensor>& saved, Pullback pullback, WeightPullback weight_pullback = {});
  /// Like record(), for several outputs and a number of inputs known only at run time.
  std::vector<Value> record_many(std::string_view name, const std::vector<Tensor>& outs, std::span<const Value> inputs,
                                 const std::vector<Tensor>& saved, Pullback pullback,
                                 WeightPullback weight_pullback = {});

  /// Makes later ops that save the tensor of `out` recompute it with `again` instead of keeping it. `out` must be an
  /// output of the last op recorded. `again` receives the tensors saved by the last op and must return a bitwise
  /// identical tensor. Call it only if recompute_norms() is true.
  void recompute_from_saved(const Value& out, std::function<Tensor(Stream&, const Saved&)> again);

  /// Returns the name of the part of the model that is being recorded; see Scope.
  std::string_view scope() const { return scope_; }

  /// Returns the parameters of all ops so far, with one entry for each use. Ops that need no backward pass are
  /// included.
  const std::vector<Parameter*>& used_parameters() const { return used_; }
  size_t size() const { return nodes_.size(); }

 private:
  friend class Replay;
  friend class Backward;
  friend class Scope;
  struct Node {
    std::string_view name;   // name of the op, a string literal
    std::string_view scope;  // scope in which the op was recorded
    std::vector<int32_t> inputs;
    int32_t first_output = 0, outputs = 1;
    std::vector<std::shared_ptr<SavedTensor>> saved;
    Pullback pullback;
    WeightPullback weight_pullback;
    std::shared_ptr<RecomputedTensor> recomputed;  // recomputable output of this node; null if there is none
  };
  struct Recomputable {
    std::weak_ptr<Storage> storage;          // detects that the address was reused after the tensor was destroyed
    std::weak_ptr<RecomputedTensor> tensor;  // expires when the last op that saves it is freed
    Shape shape;                             // a reshaped view of the same storage is a different tensor
  };

  SavePolicy& policy_;
  Mode mode_;
  bool recompute_norms_;
  std::string_view scope_;
  std::vector<Node> nodes_;
  int32_t values_ = 0;
  std::vector<Parameter*> used_;
  std::unordered_map<std::uintptr_t, Recomputable> recomputable_;
};

/// Names the part of the model whose ops are recorded during its lifetime. The trace (device::SpanLog) gets one span of
/// this name in forward and one in backward.
class Scope {
 public:
  /// Begins the scope `name`, for example "layers.3.attention". The characters of `name` must outlive the tape.
  Scope(Tape& tape, Device at, std::string_view name);
  ~Scope() { tape_.scope_ = before_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Tape& tape_;
  const std::string_view before_;
  const device::Span span_;
};

/// A backward pass over a tape. It runs node by node and can pause between nodes. It consumes the tape: the saved
/// tensors of a node are freed after the node has run.
class Replay {
 public:
  struct Root {
    Value value;
    Tensor gradient;
  };
  enum class Weights : uint8_t { at_once, delayed };

  /// Prepares a backward pass from `roots`. `gradient_ready` (may be empty) is called once for each parameter, after
  /// this tape's last contribution to its gradient.
  Replay(Tape& tape, std::span<const Root> roots, Weights weights = Weights::at_once,
         std::function<void(Parameter&)> gradient_ready = {});

  /// Runs the pullback of the next node. Returns false if no node is left.
  bool step();
  /// Runs the oldest delayed weight task. Returns false if no task is left.
  bool step_weights();
  size_t pending_weights() const { return weight_tasks_.size(); }
  /// Runs all remaining nodes and weight tasks.
  void run();
  /// Sets the initial gradient of a leaf. Does nothing if `gradient` is undefined. Must be called before the first
  /// step.
  void seed(const Value& leaf, Tensor gradient) {
    if (gradient.defined()) accumulate(leaf.id, std::move(gradient));
  }
  /// Removes and returns the gradient of a leaf. The caller becomes its only owner. The gradient is undefined if no
  /// result depended on the leaf.
  Tensor take_gradient(const Value& leaf) {
    require(leaf.wants_gradient(), "[tape] take_gradient() was called for a value that needs no gradient");
    return std::exchange(gradients_[leaf.id], {});
  }

 private:
  friend class Backward;
  struct WeightTask {
    std::string_view scope;
    std::vector<Parameter*> parameters;
    std::function<void()> work;
  };
  void accumulate(int32_t id, Tensor gradient);
  Tensor& sum_of(int32_t id) { return gradients_[id]; }
  void finish(std::span<Parameter* const> parameters);
  void run_node(size_t index);
  /// Opens a trace span for the nodes of one part of the model. The span ends when another part begins.
  void enter(std::string_view scope, std::string_view what);

  Tape& tape_;
  Weights weights_;
  std::function<void(Parameter&)> gradient_ready_;
  std::vector<Tensor> gradients_;
  size_t next_;  // nodes [0, next_) have not run yet
  std::deque<WeightTask> weight_tasks_;
  std::unordered_map<Parameter*, int> remaining_;  // number of uses of each parameter whose gradients are still missing
  device::SpanLog* log_ = nullptr;                 // null: no node has run
  std::string_view scope_, what_;
  std::optional<device::Span> span_;
};

/// Runs a whole backward pass from `root`, whose gradient is `gradient`.
void backward(Tape& tape, const Value& root, const Tensor& gradient);

}  // namespace hexad::autograd
