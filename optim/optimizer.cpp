#include "optim/optimizer.h"

#include <algorithm>

namespace hexad::optim {
namespace {

// Elements that are in memory at a time, where states are offloaded.
constexpr int64_t piece_elements = 1 << 20;

// A state, or a part of it, in memory.
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

}  // namespace

Optimizer::Optimizer(const OptimConfig& config, ParameterSet& parameters, StateOffload offload)
    : config_(config), offload_(offload) {
  const auto& k = kernels::kernels(parameters.device()).pointwise;
  Stream& stream = parameters.device().context().compute();
  const auto make = [&](const Tensor& weights) {
    const Dtype acc = accumulator_dtype(weights.dtype());
    return offload == StateOffload::file ? Tensor::offloaded(weights.shape(), acc, weights.device())
                                         : Tensor::empty(weights.shape(), acc, weights.device(), Category::optimizer);
  };
  for (const auto& p : parameters) {
    if (p->owned().empty()) continue;
    const Tensor weights = p->owned_weights();
    Slot slot{p.get(), weights, weights, {}, {}};
    if (accumulator_dtype(weights.dtype()) != weights.dtype()) {
      slot.main = make(weights);
      k.copy(stream, slot.main, weights);
    }
    if (config.kind == OptimizerKind::adamw)
      for (Tensor* moment : {&slot.moment1, &slot.moment2}) {
        *moment = make(weights);
        k.fill(stream, *moment, 0.0);
      }
    slots_.push_back(slot);
  }
}

void Optimizer::update(Stream& stream, std::span<const AdamwSlice> slices, double lr, const Tensor& factor,
                       int64_t step) const {
  if (slices.empty()) return;
  const auto& k = kernels::kernels(slices.front().main.device()).optimizer;
  if (config_.kind == OptimizerKind::adamw)
    return k.adamw(stream, slices,
                   {.lr = lr, .beta1 = config_.beta1, .beta2 = config_.beta2, .eps = config_.eps, .step = step},
                   factor);
  for (const AdamwSlice& s : slices) k.sgd(stream, s.main, s.weights, s.gradient, lr, factor);
}

void Optimizer::update_in_pieces(Stream& stream, const AdamwSlice& whole, double lr, const Tensor& factor,
                                 int64_t step) const {
  const int64_t n = whole.weights.numel();
  for (int64_t begin = 0; begin < n; begin += piece_elements) {
    const auto part = [&](const Tensor& t) {
      return t.defined() ? t.slice(0, begin, std::min(n, begin + piece_elements)) : Tensor{};
    };
    const Resident main(stream, part(whole.main)), m(stream, part(whole.m)), v(stream, part(whole.v));
    const AdamwSlice here{main.tensor(),       m.tensor(),           v.tensor(),
                          part(whole.weights), part(whole.gradient), whole.weight_decay};
    update(stream, {&here, 1}, lr, factor, step);
    for (const Resident* r : {&main, &m, &v}) r->put_back(stream);
  }
}

void Optimizer::step(Stream& stream, double lr, const Tensor& factor, int64_t step) {
  std::vector<AdamwSlice> slices;
  for (const Slot& s : slots_)
    slices.push_back({.main = s.main,
                      .m = s.moment1,
                      .v = s.moment2,
                      .weights = s.weights,
                      .gradient = s.parameter->owned_gradient(stream),
                      .weight_decay = s.parameter->spec().decay ? config_.weight_decay : 0.0});
  if (offload_ == StateOffload::file)
    for (const AdamwSlice& s : slices) update_in_pieces(stream, s, lr, factor, step);
  else
    update(stream, slices, lr, factor, step);
  for (const Slot& s : slots_) s.parameter->changed();
}

std::vector<Optimizer::State> Optimizer::states() const {
  std::vector<State> out;
  for (const Slot& s : slots_) {
    out.push_back({s.parameter, "main", s.main});
    if (s.moment1.defined()) out.push_back({s.parameter, "moment1", s.moment1});
    if (s.moment2.defined()) out.push_back({s.parameter, "moment2", s.moment2});
  }
  return out;
}

void Optimizer::main_changed(Stream& stream) {
  for (Slot& s : slots_) {
    if (s.main.storage() != s.weights.storage())
      kernels::kernels(s.main.device()).pointwise.copy(stream, s.weights, s.main);
    s.parameter->changed();
  }
}

}  // namespace hexad::optim
