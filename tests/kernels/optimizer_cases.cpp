#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;
constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array both{Write::replace, Write::add};

// Returns a second moment with all elements 0.25.
Tensor squares(Trial& r, const Shape& shape, Dtype dtype) {
  const Tensor v = r.update(shape, dtype);
  reference_table.pointwise.fill(r.host_stream, v, 0.25);
  return v;
}

// Returns gradient factors: undefined, 0.5, and -1, which skips the step.
std::vector<Tensor> factors(Trial& r) { return {{}, r.values<double>({0.5}, {1}), r.values<double>({-1}, {1})}; }

// Returns slices with and without separate weights for the model, slices with bf16 gradients, and an empty slice.
std::vector<AdamwSlice> slices(Trial& r) {
  const Shape shape{r.size.rows, r.size.width}, single{1}, none{0};
  const auto slice = [&](const Shape& s, bool copy, Dtype gradient, double weight_decay) {
    const Tensor main = r.update(s, r.acc());
    return AdamwSlice{.main = main,
                      .m = r.update(s, r.acc()),
                      .v = squares(r, s, r.acc()),
                      .weights = copy ? r.update(s, r.dtype) : main,
                      .gradient = r.normal(s, gradient),
                      .weight_decay = weight_decay};
  };
  return {slice(shape, true, r.acc(), 0.1), slice(none, true, r.acc(), 0.1), slice(shape, false, r.acc(), 0),
          slice(shape, true, Dtype::bf16, 0.2), slice(single, false, Dtype::bf16, 0.1)};
}

// Returns slices with bf16 moments, of whole parameters and of partitioned parameters. Some slices begin at an odd
// element.
std::vector<AdamwSlice> slices_with_bf16_moments(Trial& r) {
  const int64_t n = r.size.rows * r.size.width;
  const base::GlobalIndex whole{}, cut{.begin = 3, .first = 1000, .run = 21, .stride = 100};
  const auto slice = [&](int64_t skipped, bool copy, Dtype gradient, const base::GlobalIndex& place) {
    const auto flat = [&](Dtype dtype) { return r.update({skipped + n}, dtype).slice(0, skipped, skipped + n); };
    const Tensor main = flat(r.acc());
    return AdamwSlice{.main = main,
                      .m = flat(Dtype::bf16),
                      .v = squares(r, {skipped + n}, Dtype::bf16).slice(0, skipped, skipped + n),
                      .weights = copy ? flat(r.dtype) : main,
                      .gradient = r.normal({n}, gradient),
                      .weight_decay = 0.1,
                      .place = place,
                      .rounding_key = 0x9e3779b9};
  };
  return {slice(0, true, r.acc(), whole), slice(1, true, Dtype::bf16, cut), slice(1, false, r.acc(), whole),
          slice(0, false, Dtype::bf16, cut)};
}

}  // namespace

std::vector<Case> optimizer_cases() {
  return {
      {"adamw", entry(&KernelTable::optimizer, &OptimizerKernels::adamw),
       [](K k, Trial& r) {
         const AdamwStep step{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .step = 3};
         for (const Tensor& factor : factors(r)) k.optimizer.adamw(r.stream, slices(r), step, factor);
         k.optimizer.adamw(r.stream, {}, step, {});
       }},
      {"adamw_bf16_moments",
       entry(&KernelTable::optimizer, &OptimizerKernels::adamw),
       [](K k, Trial& r) {
         const AdamwStep step{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .step = 3};
         for (const Tensor& factor : factors(r)) k.optimizer.adamw(r.stream, slices_with_bf16_moments(r), step, factor);
       },
       {Dtype::f32, Dtype::bf16}},
      {"sgd", entry(&KernelTable::optimizer, &OptimizerKernels::sgd),
       [](K k, Trial& r) {
         const Shape shape{r.size.rows, r.size.width};
         for (const Tensor& gradient : {r.normal(shape, r.acc()), r.normal(shape, Dtype::bf16)})
           for (const Tensor& factor : factors(r)) {
             k.optimizer.sgd(r.stream, r.update(shape, r.acc()), r.update(shape, r.dtype), gradient, 0.1, factor);
             const Tensor main = r.update(shape, r.acc());
             k.optimizer.sgd(r.stream, main, main, gradient, 0.1, factor);
           }
       }},
      {"squared_norm", entry(&KernelTable::optimizer, &OptimizerKernels::squared_norm),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         for (const Tensor& x : {r.normal({t, d}), r.normal({t, d, 9})})
           for (Write write : both) k.optimizer.squared_norm(r.stream, r.update({1}, Dtype::f64, x.numel()), x, write);
       }},
      {"clip", entry(&KernelTable::optimizer, &OptimizerKernels::clip),
       [](K k, Trial& r) {
         for (const std::vector<double>& sums :
              {std::vector{9.0, 1.0}, {9.0}, {0.0, 5.0}, {nan, 1.0}, {9.0, inf}, {9.0, 1.0, -inf}})
           for (double limit : {0.0, 2.0, 3.0, 5.0})
             k.optimizer.clip(r.stream, r.output({1}, Dtype::f64),
                              r.values<double>(sums, {static_cast<int64_t>(sums.size())}), limit);
       }},
  };
}

}  // namespace hexad::tests
