// Compares outputs of the MoE layer with the layer's formulas, and gradients with finite differences.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/moe/moe_lab.h"
#include "tests/moe/naive_moe.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

struct Case {
  std::string name;
  std::vector<std::string> overrides;
  int64_t valid = 12;  // valid tokens of 3 sequences of 4
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Returns overrides that let experts choose tokens.
std::vector<std::string> experts_choose(std::initializer_list<const char*> more) {
  std::vector<std::string> all{"model.kind=encoder", "model.moe.router=expert_choice", "model.moe.routing=model",
                               "model.moe.aux_loss.coefficient=0"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class MoeLayerWith : public testing::TestWithParam<Case> {};

TEST_P(MoeLayerWith, EqualsItsFormulas) {
  MoeLab lab(GetParam().overrides);
  const MicroBatch batch = lab.batch(3, 4, GetParam().valid);
  const Tensor x = lab.randn({12, lab.config.hidden});
  const auto expected = Naive(lab).output(rows_of(x), batch, GetParam().valid);
  const Tensor y = forward(lab, x, batch);
  expect_close(lab.values(expected, y.shape()), y, tolerance(Dtype::f64, 100));
}

INSTANTIATE_TEST_SUITE_P(
    , MoeLayerWith,
    testing::Values(Case{"Softmax", {}}, Case{"SoftmaxNotNormalised", {"model.moe.normalize=false"}},
                    Case{"SigmoidScaled", {"model.moe.score=sigmoid", "model.moe.scale=2.5"}},
                    Case{"TopOne", {"model.moe.top_k=1", "model.moe.normalize=false"}},
                    Case{"WeighedInput",
                         {"model.moe.top_k=1", "model.moe.normalize=false", "model.moe.weigh=input",
                          "model.moe.score=sigmoid", "model.moe.shared_experts=1"}},
                    Case{"AllExperts", {"model.moe.top_k=4"}}, Case{"Biases", {"model.bias=true"}},
                    Case{"GeluAndBiases", {"model.moe.expert=gelu", "model.bias=true"}},
                    Case{"SharedExperts", {"model.moe.shared_experts=2"}},
                    Case{"GatedSharedExperts", {"model.moe.shared_experts=2", "model.moe.shared_gate=true"}},
                    Case{"NormalizeFloor", {"model.moe.normalize_floor=0.75"}}, Case{"Padding", {}, 7},
                    Case{"CapacityByProbability", {"model.moe.capacity_factor=0.8"}},
                    Case{"CapacityByPosition", {"model.moe.capacity_factor=0.8", "model.moe.drop=position"}},
                    Case{"CapacityOfSequences", {"model.moe.capacity_factor=0.6", "model.moe.capacity_scope=sequence"}},
                    Case{"CapacityWithPadding", {"model.moe.capacity_factor=0.8"}, 7},
                    Case{"ExpertsChooseTokens", experts_choose({"model.moe.capacity_factor=0.7"})},
                    Case{"ExpertsChooseTokensOfSequences",
                         experts_choose({"model.moe.capacity_factor=0.4", "model.moe.top_k=4",
                                         "model.moe.capacity_scope=sequence", "model.moe.shared_experts=1"})},
                    Case{"ExpertsChooseTokensWithPadding", experts_choose({"model.moe.capacity_factor=0.7"}), 7}),
    [](const auto& i) { return i.param.name; });

// The choice of experts is overridden, because a finite difference could change the choice. The choice cannot be
// overridden if experts choose tokens.
class MoeLayerGradients : public testing::TestWithParam<Case> {};

void expect_gradients(MoeLab& lab, const MicroBatch& batch) {
  gradcheck(lab, {lab.randn({12, lab.config.hidden})},
            [&](Tape& t, const std::vector<Value>& x) {
              const auto out = lab.layer(t, x[0], {.batch = batch});
              // Only y is compared, because the evaluations of gradcheck have no auxiliary losses without statistics.
              return std::vector<Value>{out.y};
            },
            {.zeros = Zeros::expected, .of_layers = true});
  gradcheck(lab, {lab.randn({12, lab.config.hidden})},
            [&](Tape& t, const std::vector<Value>& x) {
              const auto out = lab.layer(t, x[0], {.batch = batch, .statistics = &lab.statistics.layers});
              return std::vector<Value>{out.y, out.aux_losses};
            },
            {.zeros = Zeros::expected, .of_layers = true});
}

// Returns the overrides of a layer that is small enough for finite differences.
std::vector<std::string> small_layer() {
  return {"model.moe.routing=balanced", "model.moe.z_loss=0.1",     "model.hidden=6", "model.heads=1",
          "model.kv_heads=1",           "model.moe.expert_hidden=5"};
}

TEST(MoeLayer, GradientsOfFusedExpertsMatchFiniteDifferences) {
  MoeLab lab(small_layer());
  moe::MoeSchedule fused;
  fused.fused = moe::Fused::on;
  lab.layer.reschedule(fused, moe::alternating_order());
  expect_gradients(lab, lab.batch(3, 4));
}

TEST_P(MoeLayerGradients, MatchFiniteDifferences) {
  std::vector<std::string> overrides = small_layer();
  overrides.insert(overrides.end(), GetParam().overrides.begin(), GetParam().overrides.end());
  MoeLab lab(overrides);
  expect_gradients(lab, lab.batch(3, 4, GetParam().valid));
}

INSTANTIATE_TEST_SUITE_P(
    , MoeLayerGradients,
    testing::Values(Case{"Softmax", {}}, Case{"Sigmoid", {"model.moe.score=sigmoid", "model.moe.scale=2.5"}},
                    Case{"DroppedSlots", {"model.moe.capacity_factor=0.8", "model.moe.drop=position"}},
                    Case{"Padding", {"model.moe.aux_loss.scope=sequence"}, 7},
                    Case{"Biases", {"model.bias=true", "model.moe.shared_experts=1"}},
                    Case{"GatedSharedExperts", {"model.moe.shared_experts=1", "model.moe.shared_gate=true"}},
                    Case{"NormalizeFloor", {"model.moe.normalize_floor=0.7"}},
                    Case{"WeighedInput",
                         {"model.moe.top_k=1", "model.moe.normalize=false", "model.moe.weigh=input",
                          "model.moe.score=sigmoid", "model.moe.shared_experts=1"}},
                    Case{"Gelu", {"model.moe.expert=gelu", "model.moe.top_k=1", "model.moe.normalize=false"}},
                    // The scores differ by much more than a finite difference changes them.
                    Case{"ExpertsChooseTokens", experts_choose({"model.moe.top_k=4", "model.moe.capacity_factor=0.5"})},
                    Case{"ExpertsChooseTokensOfSequences",
                         experts_choose({"model.moe.capacity_factor=0.5", "model.moe.capacity_scope=sequence"}), 7}),
    [](const auto& i) { return i.param.name; });

TEST(MoeLayer, SecondBiasIsWeightedByTheRouterProbability) {
  MoeLab lab({"model.bias=true", "model.moe.top_k=1", "model.moe.normalize=false"});
  for (const auto& p : lab.parameters)
    if (p->name() != "moe.router.weight")
      kernels::kernels(lab.context)
          .pointwise.fill(lab.stream(), p->local(), p->name() == "moe.experts.down.bias" ? 1.0 : 0.0);
  const Tensor x = lab.randn({5, lab.config.hidden}), y = forward(lab, x, lab.batch(1, 5));
  const auto rows = rows_of(x);
  const auto router = values_of(lab.parameter("router.weight").local());
  for (size_t t = 0; t < rows.size(); ++t) {
    Row logits(4, 0.0);
    for (size_t e = 0; e < 4; ++e)
      for (size_t i = 0; i < rows[t].size(); ++i) logits[e] += router[e * rows[t].size() + i] * rows[t][i];
    double sum = 0, top = 0;
    for (double l : logits) sum += std::exp(l), top = std::max(top, std::exp(l));
    for (int64_t i = 0; i < lab.config.hidden; ++i)
      EXPECT_NEAR(values_of(y)[t * rows[t].size() + i], top / sum, tolerance(Dtype::f64, 16));
  }
}

}  // namespace
}  // namespace hexad::tests
