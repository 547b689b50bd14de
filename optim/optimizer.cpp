#include "optim/optimizer.h"

#include <algorithm>

#include "framework/base/block_sizes.h"
#include "framework/base/philox.h"
#include "framework/device/meta/meta_run.h"
#include "framework/device/meta/meta_stream.h"
#include "framework/tensor/host_read.h"

namespace hexad::optim {

using device::Category;
using namespace base;

namespace {

// Copy of an offloaded tensor (main weights or a state), or of a piece of it, in device memory. A tensor that is
// already in device memory is not copied.
class Resident {
 public:
  Resident(Stream& stream, const Tensor& home) : home_(home), tensor_(home) {
    if (!away()) return;
    tensor_ = Tensor::like(home, Category::optimizer);
    kernels::kernels(home.device()).pointwise.copy(stream, tensor_, home);
  }
  const Tensor& tensor() const { return tensor_; }
  void put_back(Stream& stream) const {
    if (away()) kernels::kernels(home_.device()).pointwise.copy(stream, home_, tensor_);
  }

 private:
  bool away() const { return home_.defined() && home_.storage()->category() == Category::offload; }
  Tensor home_, tensor_;
};

// Slice whose main weights and states are in device memory (Resident).
class ResidentSlice {
 public:
  ResidentSlice(Stream& stream, const Slice& home) : slice_(home) {
    tensors_.emplace_back(stream, home.main);
    slice_.main = tensors_.back().tensor();
    for (Tensor& state : slice_.states) {
      tensors_.emplace_back(stream, state);
      state = tensors_.back().tensor();
    }
  }
  const Slice& slice() const { return slice_; }
  void put_back(Stream& stream) const {
    for (const Resident& t : tensors_) t.put_back(stream);
  }

 private:
  Slice slice_;
  std::vector<Resident> tensors_;
};

// Returns the log of operations on the meta device; null on other devices, or if the run has no log.
device::IssueLog* log_of(const Tensor& t) {
  device::MetaRun* run = t.device().context().meta();
  return run ? run->issues() : nullptr;
}

// Returns the bytes that an update moves: it reads and writes `main` and the states, reads the gradient, and writes the
// weights if they are not `main`. The update also reads the weights if `main` contains rests, which are bf16.
int64_t bytes_of(const Slice& s) {
  int64_t bytes = 2 * s.main.bytes() + s.gradient.bytes();
  for (const Tensor& state : s.states) bytes += 2 * state.bytes();
  if (s.weights.storage() == s.main.storage()) return bytes;
  return bytes + (s.main.dtype() == Dtype::bf16 ? 2 : 1) * s.weights.bytes();
}

// Returns the dtype that decides the time for a byte of an update: the dtype of the states, or of `main` if there are
// no states.
Dtype dtype_of_update(const Slice& s) { return s.states.empty() ? s.main.dtype() : s.states.front().dtype(); }

}  // namespace

Optimizer::Optimizer(const OptimConfig& config, ParameterSet& parameters, StateOffload offload,
                     const UpdateRules& rules, const mesh::Mesh* mesh)
    : rule_(rules.make(config)),
      matrix_rule_(dynamic_cast<const MatrixRule*>(rule_.get())),
      weight_decay_(config.weight_decay),
      seed_(config.seed),
      rounds_states_(config.moment_dtype == MomentDtype::bf16),
      offload_(offload) {
  if (config.main_weights == MainWeights::rest) {
    const std::vector<std::string> names = rule_->states();
    marked_state_ = std::ranges::find(names, rules.find(config.name)->marked_state) - names.begin();
  }
  const auto& k = kernels::kernels(parameters.device()).pointwise;
  Stream& stream = parameters.device().context().compute();
  const auto make = [&](const Tensor& weights, Dtype dtype) {
    return offload == StateOffload::file ? Tensor::offloaded(weights.shape(), dtype, weights.device())
                                         : Tensor::empty(weights.shape(), dtype, weights.device(), Category::optimizer);
  };
  for (const auto& p : parameters) {
    if (!p->trainable()) continue;
    const bool matrices = matrix_rule_ && matrix_rule_->takes_matrices(p->spec()), owns = !p->owned().empty();
    if (matrices)
      matrices_.push_back({dp::WholeMatrices(*p, mesh), owns ? std::optional(owned_.size()) : std::nullopt});
    if (!owns) continue;
    const Tensor weights = p->owned_weights();
    const Dtype acc = accumulator_dtype(weights.dtype());
    Owned owned{.parameter = p.get(),
                .weights = weights,
                .main = weights,
                .names = rule_->states_of(p->spec()),
                .states = {},
                .matrices = matrices};
    if (rounds_states_) owned.place = global_index(p->global_shape(), p->region(), p->owned().begin);
    if (config.main_weights == MainWeights::rest && weights.dtype() == Dtype::bf16) {
      owned.rests = true;
      owned.main = make(weights, Dtype::bf16);
      k.fill(stream, owned.main, 0.0);
    } else if (acc != weights.dtype()) {
      owned.main = make(weights, acc);
      k.copy(stream, owned.main, weights);
    }
    for (size_t i = 0; i < owned.names.size(); ++i) {
      owned.states.push_back(make(weights, config.state_dtype(acc)));
      k.fill(stream, owned.states.back(), 0.0);
    }
    owned_.push_back(std::move(owned));
  }
}

// Calls the rule, except on a device without memory if the rule accesses tensors itself. In that case, logs an estimate
// of the update if the run has a log.
void Optimizer::call_rule(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const {
  if (slices.front().main.device().has_memory() || rule_->only_launches_kernels())
    rule_->update(stream, slices, step);
  else if (device::IssueLog* log = log_of(slices.front().main))
    for (const Slice& s : slices)
      log->add("optimizer", "update", device::lane_of(stream), device::MemoryWork{bytes_of(s), dtype_of_update(s)});
}

void Optimizer::update_in_pieces(Stream& stream, const Slice& whole, const UpdateStep& step) const {
  const int64_t n = whole.weights.numel(), piece = base::block_sizes().optimizer_elements;
  for (int64_t begin = 0; begin < n; begin += piece) {
    const auto part = [&](const Tensor& t) { return t.slice(0, begin, std::min(n, begin + piece)); };
    Slice here{.main = part(whole.main),
               .weights = part(whole.weights),
               .gradient = part(whole.gradient),
               .weight_decay = whole.weight_decay,
               .place = whole.place.from(begin),
               .rounding_key = whole.rounding_key};
    for (const Tensor& state : whole.states) here.states.push_back(part(state));
    const ResidentSlice resident(stream, here);
    call_rule(stream, {&resident.slice(), 1}, step);
    resident.put_back(stream);
    // A device without memory that does not log operations only counts memory. Two pieces are then enough, because
    // later pieces do not need more memory.
    const device::IssueLog* log = log_of(whole.main);
    if (!whole.weights.device().has_memory() && begin > 0 && (!log || log->paused())) return;
  }
}

Slice Optimizer::slice_of(Stream& stream, const Owned& o, int64_t step) const {
  const uint32_t key =
      rounds_states_ ? Philox(seed_, Purpose::round, o.parameter->name(), static_cast<uint64_t>(step)).bits(0) : 0;
  return {.main = o.main,
          .states = o.states,
          .weights = o.weights,
          .gradient = o.parameter->owned_gradient(stream),
          .weight_decay = o.parameter->spec().decay ? weight_decay_ : 0.0,
          .place = o.place,
          .rounding_key = key};
}

// Updates the parameters of matrices_ one by one. All ranks that share these parameters have them in the same order,
// and therefore run the collectives in the same order.
void Optimizer::update_matrices(Stream& stream, const UpdateStep& step) const {
  if (matrices_.empty()) return;
  const bool known = step.factor.defined() && step.factor.device().has_memory();
  const double factor = known ? tensor::read_to_host("optimizer: factor", step.factor, stream).scalar() : 1;
  if (factor < 0) return;  // the factor is equal on all ranks
  for (const Matrices& m : matrices_) {
    if (!m.owned) {
      matrix_rule_->update_matrices(stream, {}, {step.lr, factor}, m.whole);
      continue;
    }
    const ResidentSlice resident(stream, slice_of(stream, owned_[*m.owned], step.step));
    matrix_rule_->update_matrices(stream, resident.slice(), {step.lr, factor}, m.whole);
    resident.put_back(stream);
  }
}

// Updates the elements of `owned` by UpdateRule::update(). Skips parameters whose whole matrices the rule updates.
void Optimizer::update(Stream& stream, std::span<const Owned* const> owned, const UpdateStep& step) const {
  std::vector<Slice> slices;
  for (const Owned* o : owned)
    if (!o->matrices) slices.push_back(slice_of(stream, *o, step.step));
  if (offload_ == StateOffload::file)
    for (const Slice& s : slices) update_in_pieces(stream, s, step);
  else if (!slices.empty())
    call_rule(stream, slices, step);
}

void Optimizer::update(Stream& stream, std::span<Parameter* const> parameters, const UpdateStep& step) const {
  std::vector<const Owned*> owned;
  for (const Parameter* p : parameters)
    if (const auto at = std::ranges::find(owned_, p, &Owned::parameter); at != owned_.end()) owned.push_back(&*at);
  update(stream, owned, step);
}

void Optimizer::step(Stream& stream, double lr, const Tensor& factor, int64_t step) {
  const UpdateStep now{lr, step, factor};
  std::vector<const Owned*> all;
  for (const Owned& o : owned_) all.push_back(&o);
  update(stream, all, now);
  update_matrices(stream, now);
}

std::vector<Optimizer::State> Optimizer::states() const {
  std::vector<State> out;
  for (const Owned& o : owned_) {
    const Rests rests = o.rests ? Rests{o.weights, o.main, o.states[marked_state_]} : Rests{};
    out.push_back({o.parameter, "main", o.main, rests});
    for (size_t i = 0; i < o.names.size(); ++i)
      out.push_back({o.parameter, o.names[i], o.states[i], i == marked_state_ ? rests : Rests{}});
  }
  return out;
}

Dtype Optimizer::State::dtype() const { return rests.defined() && kind == "main" ? Dtype::f32 : tensor.dtype(); }

Tensor Optimizer::State::values(int64_t begin, int64_t end) const {
  if (!rests.defined()) return tensor.slice(0, begin, end);
  return kind == "main" ? main_weights(rests.slice(begin, end)) : unmarked_moments(rests.slice(begin, end));
}

void Optimizer::State::load(const std::function<void(const Tensor& target)>& read) const {
  if (!rests.defined()) return read(tensor);
  const Tensor main = main_weights(rests);
  read(kind == "main" ? main : tensor);
  store_main_weights(main, rests);  // also sets the marks (Rests), which moments from `read` do not have
}

void Optimizer::main_changed(Stream& stream) {
  for (Owned& o : owned_)
    if (!o.rests && o.main.storage() != o.weights.storage())  // with rests, State::load() has written the weights
      kernels::kernels(o.main.device()).pointwise.copy(stream, o.weights, o.main);
}

}  // namespace hexad::optim
