#include "tests/kernels/cases.h"

namespace hexad::tests {
namespace {

using K = const KernelTable&;

// A second moment: not negative.
Tensor squares(Trial& r, const Shape& shape) {
  const Tensor v = r.update(shape, r.acc());
  reference_table.pointwise.fill(r.stream, v, 0.25);
  return v;
}

}  // namespace

std::vector<Case> optimizer_cases() {
  return {
      {"adamw", entry(&KernelTable::optimizer, &OptimizerKernels::adamw),
       [](K k, Trial& r) {
         const Shape shape{r.size.rows, r.size.width};
         const AdamwStep step{.lr = 0.01,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-8,
                              .weight_decay = 0.1,
                              .step = 3,
                              .gradient_scale = 0.5};
         k.optimizer.adamw(r.stream, r.update(shape, r.acc()), r.update(shape, r.acc()), squares(r, shape),
                           r.output(shape), r.normal(shape, r.acc()), step);
         const Tensor main = r.update(shape, r.acc());  // no copy beside it
         k.optimizer.adamw(r.stream, main, r.update(shape, r.acc()), squares(r, shape), main, r.normal(shape, r.acc()),
                           step);
       }},
      {"sgd", entry(&KernelTable::optimizer, &OptimizerKernels::sgd),
       [](K k, Trial& r) {
         const Shape shape{r.size.rows, r.size.width};
         k.optimizer.sgd(r.stream, r.update(shape, r.acc()), r.output(shape), r.normal(shape, r.acc()), 0.1, 0.5);
         const Tensor main = r.update(shape, r.acc());
         k.optimizer.sgd(r.stream, main, main, r.normal(shape, r.acc()), 0.1, 0.5);
       }},
      {"squared_norm", entry(&KernelTable::optimizer, &OptimizerKernels::squared_norm),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         r.scalar(k.optimizer.squared_norm(r.stream, r.normal({t, d})), t * d);
         r.scalar(k.optimizer.squared_norm(r.stream, r.normal({t, d, 9})), t * d * 9);
       }},
  };
}

}  // namespace hexad::tests
