#include "framework/autograd/tape.h"

namespace hexad::autograd {

using namespace base;

namespace {

device::SpanLog& spans_of(Device device) { return device.context().spans(); }

std::string_view kind_of(Tape::Mode mode) { return mode == Tape::Mode::recompute ? "recomputed" : "forward"; }

}  // namespace

Scope::Scope(Tape& tape, Device at, std::string_view name)
    : tape_(tape), before_(std::exchange(tape.scope_, name)), span_(spans_of(at), name, kind_of(tape.mode())) {}

Value Tape::leaf(const Tensor& data) { return {data, recording() ? values_++ : -1}; }

Value Tape::record(std::string_view name, const Tensor& out, std::initializer_list<Value> inputs,
                   const std::vector<Tensor>& saved, Pullback pullback, WeightPullback weight_pullback) {
  return record_many(name, {out}, {inputs.begin(), inputs.size()}, saved, std::move(pullback),
                     std::move(weight_pullback))[0];
}

std::vector<Value> Tape::record_many(std::string_view name, const std::vector<Tensor>& outs,
                                     std::span<const Value> inputs, const std::vector<Tensor>& saved, Pullback pullback,
                                     WeightPullback weight_pullback) {
  spans_of(outs.front().device()).sample();
  used_.insert(used_.end(), weight_pullback.parameters.begin(), weight_pullback.parameters.end());
  std::vector<Value> values;
  for (const Tensor& out : outs) values.push_back({out, -1});

  bool wanted = !weight_pullback.parameters.empty();
  for (const Value& v : inputs) wanted |= v.wants_gradient();
  if (!recording() || !wanted) return values;

  Node node;
  node.name = name;
  node.scope = scope_;
  for (const Value& v : inputs) node.inputs.push_back(v.id);
  node.first_output = values_;
  node.outputs = static_cast<int32_t>(outs.size());
  for (const Tensor& t : saved) {
    if (!t.defined()) {
      node.saved.push_back(nullptr);
      continue;
    }
    const auto it = recomputable_.find(t.address());
    if (it != recomputable_.end() && it->second.storage.lock() == t.storage() && it->second.shape == t.shape())
      node.saved.push_back(it->second.tensor.lock());
    else
      node.saved.push_back(policy_.save(t, stream));
  }
  node.pullback = std::move(pullback);
  node.weight_pullback = std::move(weight_pullback);
  nodes_.push_back(std::move(node));
  for (Value& v : values) v.id = values_++;
  return values;
}

void Tape::recompute_from_saved(const Value& out, std::function<Tensor(Stream&, const Saved&)> again) {
  if (!recompute_norms_ || !out.wants_gradient()) return;
  Node& node = nodes_.back();
  require(node.first_output == out.id, "[tape] recompute_from_saved() was called for value ", out.id,
          "; expected value ", node.first_output, ", the first output of the last op, ", node.name);
  node.recomputed = std::make_shared<RecomputedTensor>(
      [again = std::move(again), slots = node.saved](Stream& s) { return again(s, Saved(slots, s)); });
  recomputable_[out.data.address()] = {out.data.storage(), node.recomputed, out.shape()};
}

void Backward::accumulate(size_t index, Tensor gradient) {
  require(index < inputs_.size(), "[tape] a pullback gives a gradient to input ", index, "; expected an index below ",
          inputs_.size(), ", the op's number of inputs");
  check_not_replayed(index);
  if (inputs_[index] >= 0) replay_.accumulate(inputs_[index], std::move(gradient));
}

void Backward::accumulate(size_t index, const Shape& shape, Dtype dtype,
                          const std::function<void(const Tensor& out, const Tensor& so_far)>& write) {
  if (!wants(index)) return;
  check_not_replayed(index);
  Tensor& sum = replay_.sum_of(inputs_[index]);
  require(!sum.defined() || (sum.shape() == shape && sum.dtype() == dtype), "[tape] one value gets gradients ",
          sum.shape(), " ", sum.dtype(), " and ", shape, " ", dtype, "; expected the same shape and dtype");
  // Changes the sum in place only if no other object shares it, because an op may give two inputs the same tensor as
  // their gradient.
  const Tensor out = sum.defined() && sum.sole_owner() ? sum : Tensor::empty(shape, dtype, output_device());
  write(out, sum);
  sum = out;
}

Tensor Backward::take_gradient(size_t index) {
  return wants(index) ? std::exchange(replay_.sum_of(inputs_[index]), {}) : Tensor{};
}

Device Backward::output_device() const {
  for (const Tensor& t : output_gradients_)
    if (t.defined()) return t.device();
  fail_invariant("[tape] backward runs for an op, but none of the op's outputs has a gradient; expected at least one");
}

bool Backward::wants(size_t index) const { return inputs_[index] >= 0; }

const Tensor& Backward::output_gradient(size_t index) const { return output_gradients_[index]; }

bool Backward::weights_delayed() const { return replay_.weights_delayed(); }

void Backward::defer(std::function<void()> work) {
  if (weights_delayed())
    replay_.weight_tasks_.push_back({replay_.scope_, {}, std::move(work)});
  else
    work();
}

void Backward::replay_from(size_t first) {
  if (first >= replay_.next_) return;
  replayed_from_ = replay_.tape_.nodes_[first].first_output;
  while (replay_.next_ > first) replay_.step();
}

void Backward::save_for_weights(const std::vector<Tensor>& tensors) {
  std::vector<std::shared_ptr<SavedTensor>> kept;
  for (const Tensor& t : tensors) kept.push_back(t.defined() ? kept_as_it_is(t) : nullptr);
  saved_by_pullback_ = Saved(std::move(kept), stream);
}

// Throws std::logic_error if replay_from() replayed the op that computed input `index`, because the gradient would be
// lost.
void Backward::check_not_replayed(size_t index) const {
  require(inputs_[index] < replayed_from_, "[tape] an op gives a gradient to its input ", index,
          ", which comes from an op that backward has already replayed; expected an op that is replayed later");
}

Replay::Replay(Tape& tape, std::span<const Root> roots, Weights weights, std::function<void(Parameter&)> gradient_ready)
    : tape_(tape),
      weights_(weights),
      gradient_ready_(std::move(gradient_ready)),
      gradients_(tape.values_),
      next_(tape.nodes_.size()) {
  for (const auto& node : tape.nodes_)
    for (Parameter* p : node.weight_pullback.parameters) ++remaining_[p];
  for (const Root& root : roots) {
    require(root.value.wants_gradient(),
            "[tape] the root of backward depends on nothing that needs a gradient; expected a root that depends on a "
            "leaf or a parameter");
    require(root.gradient.shape() == root.value.shape() && root.gradient.dtype() == root.value.data.dtype(),
            "[tape] the root is ", root.value.shape(), " ", root.value.data.dtype(), " but its gradient is ",
            root.gradient.shape(), " ", root.gradient.dtype(), "; expected the same shape and dtype");
    accumulate(root.value.id, root.gradient);
    log_ = &spans_of(root.gradient.device());
  }
}

void Replay::enter(std::string_view scope, std::string_view what) {
  if (!log_ || (span_ && scope == scope_ && what == what_)) return log_ ? log_->sample() : void();
  span_.reset();
  scope_ = scope, what_ = what;
  span_.emplace(*log_, scope.empty() ? "model" : scope, what);
}

void Replay::accumulate(int32_t id, Tensor gradient) {
  Tensor& sum = gradients_[id];
  if (!sum.defined()) {
    sum = std::move(gradient);
    return;
  }
  require(sum.shape() == gradient.shape() && sum.dtype() == gradient.dtype(), "[tape] one value gets gradients ",
          sum.shape(), " ", sum.dtype(), " and ", gradient.shape(), " ", gradient.dtype(),
          "; expected the same shape and dtype");
  // Changes the sum in place only if no other object shares it, because an op may give two inputs the same tensor as
  // their gradient.
  const Tensor target = sum.sole_owner() ? sum : Tensor::like(sum);
  kernels::kernels(sum.device()).pointwise.add(tape_.stream, target, sum, gradient);
  sum = target;
}

void Replay::finish(std::span<Parameter* const> parameters) {
  for (Parameter* p : parameters)
    if (--remaining_[p] == 0 && gradient_ready_) gradient_ready_(*p);
}

// Calls the functions that were passed to Tape::at_backward() while the tape had exactly next_ ops. Ends the open span
// before each call.
void Replay::reach_points() {
  while (!tape_.points_.empty() && tape_.points_.back().nodes == next_) {
    const std::function<void(Replay&)> reached = std::move(tape_.points_.back().reached);
    tape_.points_.pop_back();
    span_.reset();
    reached(*this);
  }
}

void Replay::between_weights(std::function<void()> work) {
  if (!weights_delayed()) return work();
  weight_tasks_.push_back({{}, {}, std::move(work), true});
}

bool Replay::step() {
  reach_points();
  if (next_ == 0) return false;
  enter(tape_.nodes_[next_ - 1].scope, "backward");
  run_node(--next_);
  if (next_ == 0) span_.reset();
  return true;
}

void Replay::run_node(size_t index) {
  // Moves the node out of the tape. Its tensors are released when this function returns. A delayed weight task with
  // work keeps them until it has run.
  Tape::Node node = std::move(tape_.nodes_[index]);
  tape_.nodes_.pop_back();
  std::vector<Tensor> douts(node.outputs);
  bool any = false;
  for (size_t o = 0; o < douts.size(); ++o) {
    douts[o] = std::move(gradients_[node.first_output + o]);
    any |= douts[o].defined();
  }
  if (!any) {  // the op's outputs got no gradient, so the op contributes nothing
    finish(node.weight_pullback.parameters);
    return;
  }
  require(node.pullback || node.weight_pullback.run, "[tape] a gradient reaches the op ", node.name,
          ", which has no pullback; expected an op with a pullback");
  Backward b(tape_.stream, *this, node.inputs, douts);
  const Saved saved(node.saved, tape_.stream);
  if (node.pullback) node.pullback(b, douts[0], saved);
  if (node.recomputed) node.recomputed->release();
  if (node.weight_pullback.parameters.empty()) return;
  if (!node.weight_pullback.trains()) node.weight_pullback.run = {};
  if (weights_ == Weights::at_once) {
    if (node.weight_pullback.run) node.weight_pullback.run(b, douts[0], saved);
    finish(node.weight_pullback.parameters);
    return;
  }
  WeightTask task{node.scope, node.weight_pullback.parameters, {}};
  if (node.weight_pullback.run)  // a task without work needs no tensors, so they are released now
    task.work = [this, inputs = node.inputs, douts, saved, from_pullback = std::move(b.saved_by_pullback_),
                 run = std::move(node.weight_pullback.run)]() mutable {
      Backward later(tape_.stream, *this, inputs, douts);
      later.saved_by_pullback_ = std::move(from_pullback);
      run(later, douts[0], saved);
    };
  weight_tasks_.push_back(std::move(task));
}

bool Replay::step_weights() {
  if (weight_tasks_.empty()) return false;
  WeightTask task = std::move(weight_tasks_.front());
  weight_tasks_.pop_front();
  if (task.between)
    span_.reset();
  else
    enter(task.scope, "weight gradients");
  if (task.work) task.work();
  finish(task.parameters);
  if (weight_tasks_.empty()) span_.reset();
  return true;
}

void Replay::run() {
  while (step()) {
  }
  while (step_weights()) {
  }
}

void backward(Tape& tape, const Value& root, const Tensor& gradient) {
  const Replay::Root roots[] = {{root, gradient}};
  Replay(tape, roots).run();
}

}  // namespace hexad::autograd
