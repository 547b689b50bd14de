// The eager tape: the recorded ops, the tensors that each op keeps, and the flow of gradients. A tape is owned by one
// micro-batch of one pipeline stage; there is no global state.
#pragma once

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

/// A tensor with its place on a tape. id < 0: no gradient flows into the tensor.
struct Value {
  Tensor data;
  int32_t id = -1;

  bool wants_gradient() const { return id >= 0; }
  const Shape& shape() const { return data.shape(); }
  Device device() const { return data.device(); }
};

class Replay;

/// Context of a pullback.
class Backward {
 public:
  Stream& stream;

  /// Adds `gradient` to the gradient of the op's input `index`. Drops `gradient` if the input needs no gradient.
  void accumulate(size_t index, Tensor gradient);
  /// Like accumulate(index, gradient), for a kernel that can add its gradient, of `shape` and `dtype`, to an existing
  /// one. This is cheaper than a separate addition. write(out, so_far) computes out = gradient + so_far. so_far is
  /// undefined (there is no gradient yet), `out` itself, or another tensor. `write` is not called if the input needs no
  /// gradient.
  void accumulate(size_t index, const Shape& shape, Dtype dtype,
                  const std::function<void(const Tensor& out, const Tensor& so_far)>& write);
  /// Returns and resets the gradient accumulated so far for input `index`; undefined if there is none.
  Tensor take_gradient(size_t index);
  /// True if input `index` needs a gradient. Otherwise the pullback may skip its computation.
  bool wants(size_t index) const;
  /// Returns the gradient of output `index` of an op with several outputs; undefined if nothing depended on that
  /// output.
  const Tensor& output_gradient(size_t index) const;
  /// In a pullback: hands `value` to this op's weight pullback. The replay owns the value until then.
  template <class T>
  void hand_to_weights(T value) {
    handed_ = std::move(value);
  }
  /// In a weight pullback: takes the value of type T from this op's pullback. Throws std::logic_error if there is none.
  template <class T>
  T take_from_pullback() {
    T* value = std::any_cast<T>(&handed_);
    require(value != nullptr,
            "[tape] a weight pullback takes a value that its pullback did not pass to hand_to_weights()");
    T taken = std::move(*value);
    handed_.reset();
    return taken;
  }
  /// True if weight-gradient work is delayed until Replay::step_weights().
  bool weights_delayed() const;
  /// Queues weight-gradient work of a composite op behind the work already queued.
  void defer(std::function<void()> work);
  /// Runs the pullbacks of the ops recorded from number `first` (Tape::size() before them) up to this op. They run now
  /// instead of after this op's pullback. This op accumulates the gradients of those ops' results before the call, and
  /// its other gradients after it, so that sums keep their order of addends.
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
  int32_t replayed_from_ = std::numeric_limits<int32_t>::max();  // results of replayed ops have ids from here on
  std::any handed_;  // the value passed from the pullback to the weight pullback
};

/// Computes input gradients from `dout`, the gradient of the first output.
using Pullback = std::function<void(Backward&, const Tensor& dout, const Saved&)>;

/// The part of a backward pass that computes only weight gradients. It may run any time after the pullback and may take
/// a value from the pullback (Backward::hand_to_weights). It adds to the gradients of the parameters it names.
struct WeightPullback {
  std::vector<Parameter*> parameters;
  Pullback run;
};

class Tape {
 public:
  enum class Mode : uint8_t {
    record,     // training
    recompute,  // repetition of a training forward; counters do not change
    forget,     // evaluation, or a forward that will be recomputed
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

  /// Adds an input that needs a gradient.
  Value leaf(const Tensor& data);

  /// Appends an op. The tape's policy keeps saved tensors until the op's pullbacks have run. An op without a pullback
  /// has no gradient; backward throws if it reaches such an op.
  Value record(std::string_view name, const Tensor& out, std::initializer_list<Value> inputs,
               const std::vector<Tensor>& saved, Pullback pullback, WeightPullback weight_pullback = {});
  /// Like record(), for several outputs and for inputs known at run time.
  std::vector<Value> record_many(std::string_view name, const std::vector<Tensor>& outs, std::span<const Value> inputs,
                                 const std::vector<Tensor>& saved, Pullback pullback,
                                 WeightPullback weight_pullback = {});

  /// Makes later ops that save `out`'s tensor recompute it with `again` instead of keeping it. `again` gets the tensors
  /// saved by the op that made `out`, the last op recorded, and returns the same bits. Call it only if
  /// recompute_norms() is true.
  void recompute_from_saved(const Value& out, std::function<Tensor(Stream&, const Saved&)> again);

  /// Returns the part of the model that is recorded now; see Scope.
  std::string_view scope() const { return scope_; }

  /// Returns the parameters of the ops recorded or forgotten so far, one entry for each use.
  const std::vector<Parameter*>& used_parameters() const { return used_; }
  size_t size() const { return nodes_.size(); }

 private:
  friend class Replay;
  friend class Backward;
  friend class Scope;
  struct Node {
    std::string_view name;   // a literal of the op
    std::string_view scope;  // scope in which it was recorded
    std::vector<int32_t> inputs;
    int32_t first_output = 0, outputs = 1;
    std::vector<std::shared_ptr<SavedTensor>> saved;
    Pullback pullback;
    WeightPullback weight_pullback;
    std::shared_ptr<RecomputedTensor> recomputed;  // recomputed output of this node
  };
  struct Recomputable {
    std::weak_ptr<Storage> storage;          // the address may be reused after the tensor is destroyed
    std::weak_ptr<RecomputedTensor> tensor;  // lives while an op saves it: replay frees tensors gradually
    Shape shape;                             // a reshaped view of the same storage is another tensor
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

/// Names the part of the model whose ops are recorded during its lifetime. The trace (device::SpanLog) gets a span for
/// the part in forward, and another one in backward.
class Scope {
 public:
  /// Begins the scope `name`, such as "layers.3.attention". The name must outlive the tape.
  Scope(Tape& tape, Device at, std::string_view name);
  ~Scope() { tape_.scope_ = before_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Tape& tape_;
  const std::string_view before_;
  const device::Span span_;
};

/// A backward pass over a tape. Runs node by node and can pause between nodes. Consumes the tape: each node's saved
/// tensors are freed after it has run.
class Replay {
 public:
  struct Root {
    Value value;
    Tensor gradient;
  };
  enum class Weights : uint8_t { at_once, delayed };

  /// Prepares the backward from `roots`. `gradient_ready` (may be empty) is called once for each parameter, after the
  /// parameter's last contribution from this tape.
  Replay(Tape& tape, std::span<const Root> roots, Weights weights = Weights::at_once,
         std::function<void(Parameter&)> gradient_ready = {});

  /// Runs the next node's pullback. Returns false if none is left.
  bool step();
  /// Runs the oldest delayed weight task. Returns false if there is none.
  bool step_weights();
  size_t pending_weights() const { return weight_tasks_.size(); }
  /// Runs all remaining nodes and weight tasks.
  void run();
  /// Sets the initial gradient of a leaf; undefined: none. Must be called before the first step.
  void seed(const Value& leaf, Tensor gradient) {
    if (gradient.defined()) accumulate(leaf.id, std::move(gradient));
  }
  /// Removes and returns the gradient of a leaf, so that the caller can be its only owner. Undefined if nothing
  /// depended on the leaf.
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
  /// Opens the span of the nodes run now. The span ends where another part of the model begins.
  void enter(std::string_view scope, std::string_view what);

  Tape& tape_;
  Weights weights_;
  std::function<void(Parameter&)> gradient_ready_;
  std::vector<Tensor> gradients_;
  size_t next_;  // nodes [0, next_) are still to run
  std::deque<WeightTask> weight_tasks_;
  std::unordered_map<Parameter*, int> remaining_;  // uses that have not contributed yet
  device::SpanLog* log_ = nullptr;                 // null: nothing to run
  std::string_view scope_, what_;
  std::optional<device::Span> span_;
};

/// Runs the whole backward pass from `root`, whose gradient is `gradient`.
void backward(Tape& tape, const Value& root, const Tensor& gradient);

}  // namespace hexad::autograd
