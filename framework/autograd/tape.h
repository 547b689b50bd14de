// Automatic differentiation. A Tape records the ops of a forward pass and the tensors that they save. A Replay computes
// the gradients. Each micro-batch of a pipeline stage has its own tape; there is no global state.
#pragma once

#include <algorithm>
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

/// Context in which a pullback or a weight pullback is called.
class Backward {
 public:
  Stream& stream;

  /// Adds `gradient` to the gradient of the op's input `index`. Does nothing if this input needs no gradient.
  void accumulate(size_t index, Tensor gradient);
  /// Like accumulate(index, gradient), for a kernel that can add its gradient to an existing gradient. This is cheaper
  /// than a separate addition. The gradient has `shape` and `dtype`. `write` must compute out = gradient + so_far.
  /// `so_far` may be `out` itself; it is undefined if there is no gradient yet. `write` is not called if the input
  /// needs no gradient.
  void accumulate(size_t index, const Shape& shape, Dtype dtype,
                  const std::function<void(const Tensor& out, const Tensor& so_far)>& write);
  /// Removes and returns the gradient accumulated so far for input `index`; undefined if there is none.
  Tensor take_gradient(size_t index);
  /// True if input `index` needs a gradient. If false, the pullback need not compute this gradient.
  bool wants(size_t index) const;
  /// Returns the gradient of the op's output `index`; undefined if this output got no gradient.
  const Tensor& output_gradient(size_t index) const;
  /// Saves `tensors` for this op's weight pullback, which reads them with saved_by_pullback(). Call it at most once, in
  /// a pullback. The tensors are kept until the weight pullback has run; they are released if no weight pullback will
  /// run.
  void save_for_weights(const std::vector<Tensor>& tensors);
  /// Like save_for_weights(tensors), for one tensor that SavedTensor::get() completes, for example a tensor whose rows
  /// are still arriving.
  void save_for_weights(std::shared_ptr<SavedTensor> tensor) {
    saved_by_pullback_ = Saved({std::move(tensor)}, stream);
  }
  /// Returns the tensors that this op's pullback passed to save_for_weights(). Call it only in a weight pullback.
  const Saved& saved_by_pullback() const { return saved_by_pullback_; }
  /// True if weight-gradient work is delayed until Replay::step_weights() is called.
  bool weights_delayed() const;
  /// Runs `work`, which computes weight gradients of this op. If weight-gradient work is delayed, appends `work` to the
  /// queue of Replay::step_weights() instead.
  void defer(std::function<void()> work);
  /// Runs the pullbacks of the nodes from `first` to the last node before this op. These pullbacks run now instead of
  /// after this op's pullback. `first` is the value of Tape::size() before these nodes were recorded. Before the call,
  /// this op must accumulate the gradients of the nodes' results. After the call, this op must accumulate its other
  /// gradients. The order in which gradients are summed thus does not depend on the time of the call.
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
  Saved saved_by_pullback_;
};

/// Computes the gradients of an op's inputs (or, as WeightPullback::run, of its parameters) from `dout` and the saved
/// tensors. `dout` is the gradient of the first output; it is undefined if only other outputs got a gradient.
using Pullback = std::function<void(Backward&, const Tensor& dout, const Saved&)>;

/// The part of an op's backward pass that adds to the gradients of `parameters`. It may run at any time after the
/// pullback. The pullback may save tensors for it (Backward::save_for_weights).
struct WeightPullback {
  std::vector<Parameter*> parameters;
  Pullback run;  // may be empty; not called if all parameters are frozen

  /// True if at least one parameter is trainable.
  bool trains() const { return std::ranges::any_of(parameters, &Parameter::trainable); }
};

class Tape {
 public:
  enum class Mode : uint8_t {
    record,     // records ops for backward
    recompute,  // like record, for a repeated forward pass: layers must not count statistics again
    forget,     // records nothing: for inference, or for a forward pass that will be repeated
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

  /// Returns an input of the tape's ops. Backward computes its gradient if the mode is not Mode::forget.
  Value leaf(const Tensor& data);

  /// Appends an op and returns its output. The tensors `saved` are kept until the op's pullbacks have run. The tape's
  /// policy decides where they are kept. Appends no op in Mode::forget. Also appends no op if the op has no parameter
  /// and no input needs a gradient. The returned value then needs no gradient. An op with neither pullback is not
  /// differentiable: backward throws std::logic_error if a gradient reaches the op.
  Value record(std::string_view name, const Tensor& out, std::initializer_list<Value> inputs,
               const std::vector<Tensor>& saved, Pullback pullback, WeightPullback weight_pullback = {});
  /// Like record(), for several outputs and a number of inputs known only at run time.
  std::vector<Value> record_many(std::string_view name, const std::vector<Tensor>& outs, std::span<const Value> inputs,
                                 const std::vector<Tensor>& saved, Pullback pullback,
                                 WeightPullback weight_pullback = {});

  /// Makes later ops that save the tensor of `out` recompute it with `again` instead of keeping it. `again` receives
  /// the tensors saved by the last op and must return a bitwise identical tensor. Does nothing if recompute_norms() is
  /// false or `out` needs no gradient. Otherwise, `out` must be the first output of the last op recorded.
  void recompute_from_saved(const Value& out, std::function<Tensor(Stream&, const Saved&)> again);

  /// Makes backward call `reached` after the pullbacks of all ops that are recorded later. The pullbacks of all ops
  /// that were recorded earlier run after `reached`. Functions passed between the same two ops are called in reverse
  /// order.
  void at_backward(std::function<void(Replay&)> reached) { points_.push_back({nodes_.size(), std::move(reached)}); }
  /// Adds `parameters` to used_parameters(), for work that is not recorded as ops. The caller must report the
  /// contributions of this work to gradients, because no Replay reports them.
  void count_uses(std::span<Parameter* const> parameters) {
    used_.insert(used_.end(), parameters.begin(), parameters.end());
  }

  /// Returns the name of the part of the model that is being recorded; see Scope.
  std::string_view scope() const { return scope_; }

  /// Returns the parameters of all ops so far, with one entry for each use. Frozen parameters and ops of Mode::forget
  /// are included.
  const std::vector<Parameter*>& used_parameters() const { return used_; }
  /// Returns the number of recorded ops that have not run backward.
  size_t size() const { return nodes_.size(); }

 private:
  friend class Replay;
  friend class Backward;
  friend class Scope;
  struct Node {
    std::string_view name;   // name of the op, whose characters outlive the tape
    std::string_view scope;  // scope in which the op was recorded
    std::vector<int32_t> inputs;
    int32_t first_output = 0, outputs = 1;
    std::vector<std::shared_ptr<SavedTensor>> saved;
    Pullback pullback;
    WeightPullback weight_pullback;
    std::shared_ptr<RecomputedTensor> recomputed;  // recomputable output of this node; null if there is none
  };
  struct Point {
    size_t nodes;  // number of ops that were recorded before the call of at_backward()
    std::function<void(Replay&)> reached;
  };
  struct Recomputable {
    std::weak_ptr<Storage> storage;          // detects that the address was reused after the tensor was destroyed
    std::weak_ptr<RecomputedTensor> tensor;  // expires when the op that computed it and all ops that save it are freed
    Shape shape;                             // a reshaped view of the same storage is a different tensor
  };

  SavePolicy& policy_;
  Mode mode_;
  bool recompute_norms_;
  std::string_view scope_;
  std::vector<Node> nodes_;
  std::vector<Point> points_;
  int32_t values_ = 0;
  std::vector<Parameter*> used_;
  std::unordered_map<std::uintptr_t, Recomputable> recomputable_;
};

/// Names the part of the model whose ops are recorded during its lifetime. The trace (device::SpanLog) gets a span for
/// this lifetime. During backward, the trace gets a span for each uninterrupted sequence of this scope's ops or of
/// their delayed weight tasks. The names of these spans begin with the scope's name.
class Scope {
 public:
  /// Begins the scope `name`, for example "layers.3.attention". The characters of `name` must outlive the tape. `at` is
  /// the device whose trace gets the span.
  Scope(Tape& tape, Device at, std::string_view name);
  ~Scope() { tape_.scope_ = before_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Tape& tape_;
  const std::string_view before_;
  const device::Span span_;
};

/// A backward pass over a tape. It runs node by node, from the last op to the first, and can pause between nodes. It
/// consumes the tape: the saved tensors of a node are released after the node's pullbacks have run.
class Replay {
 public:
  struct Root {
    Value value;
    Tensor gradient;
  };
  enum class Weights : uint8_t { at_once, delayed };

  /// Prepares a backward pass from `roots`. `gradient_ready` (may be empty) is called once for each parameter of the
  /// tape's ops, after this tape's last contribution to the parameter's gradient. Frozen parameters are included.
  Replay(Tape& tape, std::span<const Root> roots, Weights weights = Weights::at_once,
         std::function<void(Parameter&)> gradient_ready = {});

  /// Runs the pullback of the next node. Also runs the node's weight pullback, or delays this weight pullback
  /// (Weights::delayed). Runs neither if no output of the node got a gradient. Returns false if there was no node left
  /// to run.
  bool step();
  /// Runs the oldest delayed weight task. Returns false if there was none.
  bool step_weights();
  /// True if weight tasks are delayed (Weights::delayed).
  bool weights_delayed() const { return weights_ == Weights::delayed; }
  /// Calls `work` after all weight tasks of ops whose pullbacks have run, and before the weight tasks of other ops. If
  /// weight tasks are not delayed, calls `work` now.
  void between_weights(std::function<void()> work);
  size_t pending_weights() const { return weight_tasks_.size(); }
  /// Runs all remaining nodes, then all delayed weight tasks.
  void run();
  /// Adds `gradient` to the gradient of a leaf. Does nothing if `gradient` is undefined. Must be called before the
  /// first step.
  void seed(const Value& leaf, Tensor gradient) {
    if (gradient.defined()) accumulate(leaf.id, std::move(gradient));
  }
  /// Removes and returns the gradient of a leaf; undefined if the leaf got no gradient. Throws std::logic_error if
  /// `leaf` needs no gradient.
  Tensor take_gradient(const Value& leaf) {
    require(
        leaf.wants_gradient(),
        "[tape] take_gradient() was called for a value that needs no gradient; expected a leaf that needs a gradient");
    return std::exchange(gradients_[leaf.id], {});
  }

 private:
  friend class Backward;
  struct WeightTask {
    std::string_view scope;
    std::vector<Parameter*> parameters;
    std::function<void()> work;
    bool between = false;  // true for work of between_weights(), which has no span
  };
  void reach_points();
  void accumulate(int32_t id, Tensor gradient);
  Tensor& sum_of(int32_t id) { return gradients_[id]; }
  void finish(std::span<Parameter* const> parameters);
  void run_node(size_t index);
  /// Opens a trace span for the nodes or weight tasks of one part of the model, and ends the previous span. If this
  /// part's span is already open, only samples the memory use.
  void enter(std::string_view scope, std::string_view what);

  Tape& tape_;
  Weights weights_;
  std::function<void(Parameter&)> gradient_ready_;
  std::vector<Tensor> gradients_;
  size_t next_;  // nodes [0, next_) have not run yet
  std::deque<WeightTask> weight_tasks_;
  std::unordered_map<Parameter*, int> remaining_;  // number of uses of each parameter that have not run backward yet
  device::SpanLog* log_ = nullptr;                 // trace of the roots' device; null: there are no roots
  std::string_view scope_, what_;
  std::optional<device::Span> span_;
};

/// Runs a whole backward pass from `root`, whose gradient is `gradient`.
void backward(Tape& tape, const Value& root, const Tensor& gradient);

}  // namespace hexad::autograd
