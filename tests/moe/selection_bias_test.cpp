// Selection bias of experts, which MoeLayer::finish_batch() adjusts to the load.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/moe/moe_lab.h"
#include "tests/moe/naive_moe.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

TEST(MoeLayer, BiasMovesAgainstTheExcessLoadOnceABatch) {
  MoeLab lab({"model.moe.bias_rate=0.125"});
  ASSERT_EQ(std::distance(lab.states.begin(), lab.states.end()), 1);
  const auto& state = *lab.states.begin();
  EXPECT_EQ(state.name, "moe.router.bias");
  lab.layer.finish_batch({7, 3, 5, 5});  // the mean is 5
  lab.layer.finish_batch({9, 1, 4, 6});
  EXPECT_EQ(values_of(state.tensor), (std::vector<double>{-0.25, 0.25, 0.125, -0.125}));
}

TEST(MoeLayer, BiasDoesNotMoveWhileAnOverrideChooses) {
  MoeLab lab({"model.moe.bias_rate=0.125", "model.moe.routing=zipf"});
  lab.layer.finish_batch({7, 3, 5, 5});
  EXPECT_EQ(values_of(lab.states.begin()->tensor), std::vector<double>(4, 0.0));
}

TEST(MoeLayer, SelectionBiasWithoutRateInfluencesTheChoiceAndRemainsConstant) {
  MoeLab lab({"model.moe.selection_bias=true"});
  ASSERT_EQ(std::distance(lab.states.begin(), lab.states.end()), 1);
  const auto& state = *lab.states.begin();
  EXPECT_EQ(state.name, "moe.router.bias");
  const std::vector<double> values{-100, 100, -100, 100};
  lab.states.begin()->tensor.upload(values.data());
  forward(lab, lab.randn({12, lab.config.hidden}), lab.batch(3, 4));
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{0, 12, 0, 12}));
  lab.layer.finish_batch({0, 12, 0, 12});
  EXPECT_EQ(values_of(state.tensor), values);
}

TEST(MoeLayer, BiasIsKeptInF32UnderBf16) {
  comm::SelfGroup self;
  MoeLab lab({"model.moe.bias_rate=0.001"}, self, 1, Dtype::bf16);
  EXPECT_EQ(lab.states.begin()->tensor.dtype(), Dtype::f32);
}

TEST(MoeLayer, BiasChangesTheChoiceAndNotTheWeights) {
  MoeLab lab({"model.moe.bias_rate=100", "model.moe.top_k=2"});
  lab.layer.finish_batch({0, 0, 9, 9});  // now experts 0 and 1 always win
  MoeLab forced({"model.moe.bias_rate=100", "model.moe.experts=4"});
  const Tensor x = lab.randn({12, lab.config.hidden});
  const Tensor y = forward(lab, x, lab.batch(3, 4));
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{12, 12, 0, 0}));
  const auto rows = rows_of(x);
  Naive naive(forced);
  const Weights router{values_of(lab.parameter("router.weight").local()), 4, lab.config.hidden};
  for (size_t t = 0; t < rows.size(); ++t) {
    const Row logits = router.times(rows[t]);
    const double a = std::exp(logits[0]), b = std::exp(logits[1]);
    const Row first = naive.mlp("experts", rows[t], 0), second = naive.mlp("experts", rows[t], 1);
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_NEAR(values_of(y)[t * first.size() + i], (a * first[i] + b * second[i]) / (a + b),
                  tolerance(Dtype::f64, 1000));
  }
}

}  // namespace
}  // namespace hexad::tests
