// The eager tape: what was computed, what each op keeps, and how gradients flow back. An object owned by one
// micro-batch of one pipeline stage; there is no global state.
#pragma once

#include <any>
#include <deque>
#include <functional>
#include <initializer_list>
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

/// A tensor with its place on a tape. id < 0: no gradient flows into it.
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

  /// Adds `gradient` to that of the op's input `index`; dropped when the input wants none.
  void accumulate(size_t index, Tensor gradient);
  /// Like accumulate(index, gradient), for a kernel that can add its gradient, of `shape` and `dtype`, to an existing
  /// one. This is cheaper than a separate addition: write(out, so_far) makes out = gradient + so_far. so_far is
  /// undefined (there is no gradient yet), `out` itself, or another tensor. `write` is not called when the input wants
  /// no gradient.
  void accumulate(size_t index, const Shape& shape, Dtype dtype,
                  const std::function<void(const Tensor& out, const Tensor& so_far)>& write);
  /// Returns the gradient accumulated so far for input `index` and resets it; undefined: none.
  Tensor take_gradient(size_t index);
  /// False when nobody needs the gradient of input `index`: the pullback may skip its computation.
  bool wants(size_t index) const;
  /// Gradient of output `index` of an op with several; undefined when nothing depended on it.
  const Tensor& output_gradient(size_t index) const;
  /// In a pullback: hands `value` to this op's weight pullback. The replay owns it in between.
  template <class T>
  void hand_to_weights(T value) {
    handed_ = std::move(value);
  }
  /// In a weight pullback: takes the T that this op's pullback handed on. Throws std::logic_error if there is none.
  template <class T>
  T take_from_pullback() {
    T* value = std::any_cast<T>(&handed_);
    require(value != nullptr, "[tape] a weight pullback takes what its pullback did not hand on");
    T taken = std::move(*value);
    handed_.reset();
    return taken;
  }
  /// True if weight-gradient work waits for Replay::step_weights().
  bool weights_delayed() const;
  /// Queues weight-gradient work of a composite op behind what is queued already.
  void defer(std::function<void()> work);
  /// Runs the pullbacks of the ops recorded from number `first` (Tape::size() before it) up to this op, now instead of
  /// after this op's pullback. Sums of gradients get their addends in the same order as long as this op has not
  /// accumulated any. None of those ops may need a gradient from this op.
  void replay_from(size_t first);

 private:
  friend class Replay;
  Device output_device() const;
  Backward(Stream& s, Replay& replay, std::span<const int32_t> inputs, std::span<const Tensor> output_gradients)
      : stream(s), replay_(replay), inputs_(inputs), output_gradients_(output_gradients) {}
  Replay& replay_;
  std::span<const int32_t> inputs_;
  std::span<const Tensor> output_gradients_;
  std::any handed_;  // from the pullback to the weight pullback
};

/// Computes input gradients from `dout`, the gradient of the first output.
using Pullback = std::function<void(Backward&, const Tensor& dout, const Saved&)>;

/// The part of a backward that only weights need: may run any time after the pullback, from which it may take a value
/// (Backward::hand_to_weights). It adds to the gradients of the parameters it names.
struct WeightPullback {
  std::vector<Parameter*> parameters;
  Pullback run;
};

class Tape {
 public:
  enum class Mode : uint8_t {
    record,     // training
    recompute,  // training, for the second time: nothing may be counted again
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

  /// An input whose gradient is wanted.
  Value leaf(const Tensor& data);

  /// Appends an op. Saved tensors are kept by the tape's policy until the op's pullbacks have run. An op without a
  /// pullback has no gradient, and reaching it in backward is an error.
  Value record(std::string_view name, const Tensor& out, std::initializer_list<Value> inputs,
               const std::vector<Tensor>& saved, Pullback pullback, WeightPullback weight_pullback = {});
  /// The same for several outputs and inputs known at run time.
  std::vector<Value> record_many(std::string_view name, const std::vector<Tensor>& outs, std::span<const Value> inputs,
                                 const std::vector<Tensor>& saved, Pullback pullback,
                                 WeightPullback weight_pullback = {});

  /// From now on ops that save `out`'s tensor do not keep it, but recompute it with `again`, which gets the tensors
  /// saved by the op that made `out` (the last one recorded) and returns the same bits. Only when recompute_norms().
  void recompute_from_saved(const Value& out, std::function<Tensor(Stream&, const Saved&)> again);

  /// The part of the model that is recorded now, see Scope.
  std::string_view scope() const { return scope_; }

  /// Parameters of the ops recorded or forgotten so far, one entry a use.
  const std::vector<Parameter*>& used_parameters() const { return used_; }
  size_t size() const { return nodes_.size(); }

 private:
  friend class Replay;
  friend class Backward;
  friend class Scope;
  struct Node {
    std::string_view name;   // a literal of the op
    std::string_view scope;  // in which it was recorded
    std::vector<int32_t> inputs;
    int32_t first_output = 0, outputs = 1;
    std::vector<std::shared_ptr<SavedTensor>> saved;
    Pullback pullback;
    WeightPullback weight_pullback;
    std::shared_ptr<RecomputedTensor> recomputed;  // of this node's output
  };
  struct Recomputable {
    std::weak_ptr<Storage> storage;          // the address may be reused after the tensor is gone
    std::weak_ptr<RecomputedTensor> tensor;  // lives as long as an op that saved it: replay frees as it goes
    Shape shape;                             // a reshaped look at the same storage is another tensor
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

/// A part of a model while its ops are recorded: a span of the trace (device::SpanLog), and one more in backward.
class Scope {
 public:
  /// `name`, such as "layers.3.attention", outlives the tape.
  Scope(Tape& tape, Device at, std::string_view name);
  ~Scope() { tape_.scope_ = before_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Tape& tape_;
  const std::string_view before_;
  const device::Span span_;
};

/// A backward pass over a tape: runs node by node and can pause between nodes. Consumes the tape: saved tensors are
/// freed as it goes.
class Replay {
 public:
  struct Root {
    Value value;
    Tensor gradient;
  };
  enum class Weights : uint8_t { at_once, delayed };

  /// `gradient_ready` (may be empty) is called once for each parameter after its last contribution from this tape.
  Replay(Tape& tape, std::span<const Root> roots, Weights weights = Weights::at_once,
         std::function<void(Parameter&)> gradient_ready = {});

  /// Runs the next node's pullback; false when there is none left.
  bool step();
  /// Runs the oldest delayed weight task; false when there is none.
  bool step_weights();
  size_t pending_weights() const { return weight_tasks_.size(); }
  /// Everything that is left.
  void run();
  /// Before the first step: a leaf's gradient starts with `gradient` (undefined: with nothing).
  void seed(const Value& leaf, Tensor gradient) {
    if (gradient.defined()) accumulate(leaf.id, std::move(gradient));
  }
  /// Gradient of a leaf; undefined when nothing depended on it. Taken out, so that the caller may own it alone.
  Tensor take_gradient(const Value& leaf) {
    require(leaf.wants_gradient(), "[tape] the gradient of a value that needs no gradient");
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
  /// The span of the nodes that are run now: it ends where another part of the model begins.
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

/// Backward from one scalar or tensor with gradient `gradient`, all at once.
void backward(Tape& tape, const Value& root, const Tensor& gradient);

}  // namespace hexad::autograd
