#include "optim/optimizer.h"

#include <algorithm>

namespace hexad::optim {
namespace {

// Elements that are in memory at a time, where states are offloaded or gradients have to be widened.
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

void Optimizer::update(Stream& stream, const Slot& s, const Tensor& given, double lr, double gradient_scale,
                       int64_t step) {
  const auto& k = kernels::kernels(s.main.device()).optimizer;
  Tensor gradient = given;
  if (given.dtype() != s.main.dtype()) {
    gradient = Tensor::empty(given.shape(), s.main.dtype(), given.device());
    kernels::kernels(given.device()).pointwise.copy(stream, gradient, given);
  }
  const Resident main(stream, s.main), moment1(stream, s.moment1), moment2(stream, s.moment2);
  if (config_.kind == OptimizerKind::sgd) {
    k.sgd(stream, main.tensor(), s.weights, gradient, lr, gradient_scale);
  } else {
    k.adamw(stream, main.tensor(), moment1.tensor(), moment2.tensor(), s.weights, gradient,
            {.lr = lr,
             .beta1 = config_.beta1,
             .beta2 = config_.beta2,
             .eps = config_.eps,
             .weight_decay = s.parameter->spec().decay ? config_.weight_decay : 0.0,
             .step = step,
             .gradient_scale = gradient_scale});
  }
  for (const Resident* r : {&main, &moment1, &moment2}) r->put_back(stream);
}

void Optimizer::step(Stream& stream, double lr, double gradient_scale, int64_t step) {
  for (const Slot& s : slots_) {
    const Tensor gradient = s.parameter->owned_gradient(stream);
    const bool in_pieces = offload_ == StateOffload::file || gradient.dtype() != s.main.dtype();
    const int64_t n = s.weights.numel(), at_once = in_pieces ? piece_elements : n;
    for (int64_t begin = 0; begin < n; begin += at_once) {
      const auto part = [&](const Tensor& t) {
        return t.defined() ? t.slice(0, begin, std::min(n, begin + at_once)) : Tensor{};
      };
      update(stream, {s.parameter, part(s.weights), part(s.main), part(s.moment1), part(s.moment2)}, part(gradient), lr,
             gradient_scale, step);
    }
    s.parameter->changed();
  }
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
