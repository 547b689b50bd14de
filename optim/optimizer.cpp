#include "optim/optimizer.h"

namespace hexad::optim {

Optimizer::Optimizer(const OptimConfig& config, ParameterSet& parameters) : config_(config) {
  for (const auto& p : parameters) {
    if (p->owned().empty()) continue;
    const Tensor weights = p->owned_weights();
    const Dtype acc = accumulator_dtype(weights.dtype());
    Slot slot{p.get(), weights, weights, {}, {}};
    if (acc != weights.dtype()) {
      slot.main = Tensor::empty(weights.shape(), acc, weights.device(), Category::optimizer);
      Stream& stream = weights.device().context().compute();
      kernels::kernels(weights.device()).pointwise.copy(stream, slot.main, weights);
    }
    if (config.kind == OptimizerKind::adamw) {
      slot.moment1 = Tensor::zeros(weights.shape(), acc, weights.device(), Category::optimizer);
      slot.moment2 = Tensor::zeros(weights.shape(), acc, weights.device(), Category::optimizer);
    }
    slots_.push_back(slot);
  }
}

void Optimizer::step(Stream& stream, double lr, double gradient_scale, int64_t step) {
  for (Slot& s : slots_) {
    const auto& k = kernels::kernels(s.main.device()).optimizer;
    const Tensor gradient = s.parameter->owned_gradient(stream);
    if (config_.kind == OptimizerKind::sgd) {
      k.sgd(stream, s.main, s.weights, gradient, lr, gradient_scale);
    } else {
      k.adamw(stream, s.main, s.moment1, s.moment2, s.weights, gradient,
              {.lr = lr,
               .beta1 = config_.beta1,
               .beta2 = config_.beta2,
               .eps = config_.eps,
               .weight_decay = s.parameter->spec().decay ? config_.weight_decay : 0.0,
               .step = step,
               .gradient_scale = gradient_scale});
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
