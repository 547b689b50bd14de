#include "tests/kernels/cases.h"

namespace hexad::tests {
namespace {

using K = const KernelTable&;

void cross_entropy(K k, Trial& r, double scale) {
  const auto [t, v] = r.size;
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < t; ++i) targets.push_back(i % 4 == 3 ? -1 : static_cast<int32_t>(i * 31 % v));
  if (v == 1) r.expect_zeros();  // one word is no surprise
  k.cross_entropy.forward(r.stream, r.output({t}, r.acc(), v), r.update({t, v}, r.acc(), v),
                          r.values<int32_t>(targets, {t}), scale);
}

}  // namespace

std::vector<Case> loss_cases() {
  const size_t e = entry(&KernelTable::cross_entropy, &CrossEntropyKernels::forward);
  return {
      {"cross_entropy", e, [](K k, Trial& r) { cross_entropy(k, r, 0.125); }},
      {"cross_entropy_without_gradient", e, [](K k, Trial& r) { cross_entropy(k, r, 0); }},
  };
}

}  // namespace hexad::tests
