// Compares the MoE layer with its formulas, written as loops over tokens in double. Also tests its gradients, its
// statistics and edge cases of its inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/moe/moe_lab.h"
#include "tests/support/stack.h"

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

using Row = std::vector<double>;

// Weights of a parameter, and its product with a vector by nested loops.
struct Weights {
  std::vector<double> values;
  int64_t rows, columns;
  Row times(const Row& x, int64_t expert = 0) const {
    Row y(rows, 0.0);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) y[r] += values[(expert * rows + r) * columns + c] * x[c];
    return y;
  }
};

class Naive {
 public:
  explicit Naive(MoeLab& lab) : lab_(lab), c_(lab.config.moe) {}

  // Computes the MLP under `prefix`, or that of `expert` if the prefix has several experts.
  Row mlp(const std::string& prefix, const Row& x, int64_t expert) const {
    Row activations = affine(prefix + ".up", x, expert);
    const bool gated = c_.expert == moe::ExpertKind::swiglu;
    const Row gate = gated ? affine(prefix + ".gate", x, expert) : activations;
    for (size_t i = 0; i < activations.size(); ++i)
      activations[i] = gated ? activations[i] * gate[i] / (1 + std::exp(-gate[i]))
                             : activations[i] / 2 * (1 + std::erf(activations[i] / std::sqrt(2.0)));
    return affine(prefix + ".down", activations, expert);
  }

  std::vector<double> output(const std::vector<Row>& x, const MicroBatch& batch, int64_t valid) {
    const auto tokens = static_cast<int64_t>(x.size());
    std::vector<Row> scores;
    std::vector<std::vector<int64_t>> chosen;
    for (const Row& row : x) {
      scores.push_back(score(weights("router").times(row)));
      chosen.push_back(top_k(scores.back()));
    }
    std::vector<double> y;
    for (int64_t t = 0; t < tokens; ++t) {
      Row sum(lab_.config.hidden, 0.0);
      const size_t ti = t;
      double total = 0;
      for (int64_t e : chosen[ti]) total += scores[ti][e];
      for (int64_t e : chosen[ti]) {
        if (t >= valid || !kept(t, e, scores, chosen, batch, valid)) continue;
        const double w = c_.scale * scores[ti][e] / (c_.normalize ? std::max(total, c_.normalize_floor) : 1.0);
        const bool weighs_input = c_.weigh == moe::Weighing::input;
        Row in = x[ti];
        for (double& v : in) v *= weighs_input ? w : 1;
        const Row out = mlp("experts", in, e);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += (weighs_input ? 1 : w) * out[i];
      }
      if (c_.shared_experts > 0) {
        const Row out = mlp("shared", x[ti], 0);
        const double gate = c_.shared_gate ? 1 / (1 + std::exp(-weights("shared_gate").times(x[ti])[0])) : 1;
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += gate * out[i];
      }
      y.insert(y.end(), sum.begin(), sum.end());
    }
    return y;
  }

 private:
  // Returns a parameter, or a part of a stacked parameter.
  Tensor tensor(const std::string& name) const {
    for (const auto& p : lab_.parameters) {
      const Stack& stack = p->spec().stack;
      const auto at = std::find(stack.names.begin(), stack.names.end(), "moe." + name);
      if (at != stack.names.end()) return entry_of(p->local(), stack.dim, at - stack.names.begin());
    }
    return lab_.parameter(name).local();
  }
  Weights weights(const std::string& name) const {
    const Tensor w = tensor(name + ".weight");
    return {values_of(w), w.dim(-2), w.dim(-1)};
  }
  Row affine(const std::string& name, const Row& x, int64_t expert) const {
    Row y = weights(name).times(x, expert);
    if (!lab_.config.bias) return y;
    const auto bias = values_of(tensor(name + ".bias"));
    for (size_t i = 0; i < y.size(); ++i) y[i] += bias[expert * y.size() + i];
    return y;
  }
  Row score(Row logits) const {
    for (double& l : logits) l = c_.score == RouterScore::softmax ? std::exp(l) : 1 / (1 + std::exp(-l));
    if (c_.score == RouterScore::sigmoid) return logits;
    const double sum = std::accumulate(logits.begin(), logits.end(), 0.0);
    for (double& l : logits) l /= sum;
    return logits;
  }
  std::vector<int64_t> top_k(const Row& s) const {
    std::vector<int64_t> order(s.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return s[a] > s[b]; });
    order.resize(c_.top_k);
    return order;
  }
  // True if fewer tokens of the scope precede token t at expert e than the expert's capacity.
  bool kept(int64_t t, int64_t e, const std::vector<Row>& scores, const std::vector<std::vector<int64_t>>& chosen,
            const MicroBatch& batch, int64_t valid) const {
    if (!c_.capacity_factor) return true;
    const int64_t scope = c_.capacity_scope == moe::CapacityScope::sequence ? batch.length : batch.tokens();
    const int64_t begin = t / scope * scope, end = std::min(begin + scope, valid);
    const double mean = static_cast<double>((end - begin) * c_.top_k) / static_cast<double>(c_.experts);
    const auto at = [&](int64_t u) { return scores[u][e]; };
    double before = 0;
    for (int64_t u = begin; u < end; ++u) {
      const auto& others = chosen[u];
      if (u == t || std::find(others.begin(), others.end(), e) == others.end()) continue;
      const bool goes_first =
          c_.drop == kernels::DropRule::position ? u < t : at(u) > at(t) || (at(u) == at(t) && u < t);
      before += goes_first;
    }
    return before < std::ceil(*c_.capacity_factor * mean);
  }

  MoeLab& lab_;
  const moe::MoeConfig& c_;
};

std::vector<Row> rows_of(const Tensor& x) {
  std::vector<Row> rows;
  const auto values = values_of(x);
  for (int64_t t = 0; t < x.dim(0); ++t)
    rows.emplace_back(values.begin() + t * x.dim(1), values.begin() + (t + 1) * x.dim(1));
  return rows;
}

Tensor forward(MoeLab& lab, const Tensor& x, const MicroBatch& batch) {
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  return lab.layer(tape, {x}, {.batch = batch, .statistics = &lab.statistics.layers}).y.data;
}

class MoeLayerEquals : public testing::TestWithParam<Case> {};

TEST_P(MoeLayerEquals, ItsFormulas) {
  MoeLab lab(GetParam().overrides);
  const MicroBatch batch = lab.batch(3, 4, GetParam().valid);
  const Tensor x = lab.randn({12, lab.config.hidden});
  const auto expected = Naive(lab).output(rows_of(x), batch, GetParam().valid);
  const Tensor y = forward(lab, x, batch);
  expect_close(lab.values(expected, y.shape()), y, tolerance(Dtype::f64, 100));
}

INSTANTIATE_TEST_SUITE_P(
    , MoeLayerEquals,
    testing::Values(Case{"Softmax", {}}, Case{"SoftmaxNotNormalised", {"model.moe.normalize=false"}},
                    Case{"SigmoidScaled", {"model.moe.score=sigmoid", "model.moe.scale=2.5"}},
                    Case{"TopOne", {"model.moe.top_k=1", "model.moe.normalize=false"}},
                    Case{"WeighedInput",
                         {"model.moe.top_k=1", "model.moe.normalize=false", "model.moe.weigh=input",
                          "model.moe.score=sigmoid", "model.moe.shared_experts=1"}},
                    Case{"AllExperts", {"model.moe.top_k=4"}}, Case{"R5_Biases", {"model.bias=true"}},
                    Case{"R5_GeluAndBiases", {"model.moe.expert=gelu", "model.bias=true"}},
                    Case{"SharedExperts", {"model.moe.shared_experts=2"}},
                    Case{"GatedSharedExperts", {"model.moe.shared_experts=2", "model.moe.shared_gate=true"}},
                    Case{"NormalizeFloor", {"model.moe.normalize_floor=0.75"}}, Case{"A3_Padding", {}, 7},
                    Case{"R1_CapacityByProbability", {"model.moe.capacity_factor=0.8"}},
                    Case{"R1_CapacityByPosition", {"model.moe.capacity_factor=0.8", "model.moe.drop=position"}},
                    Case{"R1_CapacityOfSequences",
                         {"model.moe.capacity_factor=0.6", "model.moe.capacity_scope=sequence"}},
                    Case{"A3_CapacityWithPadding", {"model.moe.capacity_factor=0.8"}, 7}),
    [](const auto& i) { return i.param.name; });

// The choice of experts is overridden, because a finite difference may change it.
class MoeLayerGradients : public testing::TestWithParam<Case> {};

void expect_gradients(MoeLab& lab, const MicroBatch& batch) {
  gradcheck(lab, {lab.randn({12, lab.config.hidden})},
            [&](Tape& t, const std::vector<Value>& x) {
              const auto out = lab.layer(t, x[0], {.batch = batch});
              // An evaluation has no auxiliary losses, and gradcheck compares it with the training pass.
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
                    Case{"G6_DroppedSlots", {"model.moe.capacity_factor=0.8", "model.moe.drop=position"}},
                    Case{"A3_Padding", {"model.moe.aux_loss.scope=sequence"}, 7},
                    Case{"R5_Biases", {"model.bias=true", "model.moe.shared_experts=1"}},
                    Case{"GatedSharedExperts", {"model.moe.shared_experts=1", "model.moe.shared_gate=true"}},
                    Case{"NormalizeFloor", {"model.moe.normalize_floor=0.7"}},
                    Case{"WeighedInput",
                         {"model.moe.top_k=1", "model.moe.normalize=false", "model.moe.weigh=input",
                          "model.moe.score=sigmoid", "model.moe.shared_experts=1"}},
                    Case{"Gelu", {"model.moe.expert=gelu", "model.moe.top_k=1", "model.moe.normalize=false"}}),
    [](const auto& i) { return i.param.name; });

TEST(MoeLayer, R5_SecondBiasIsWeightedByTheRouterProbability) {
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

TEST(MoeLayer, CountsChoicesBeforeDropsAndWithoutPadding) {
  MoeLab lab({"model.moe.capacity_factor=0.5", "model.moe.routing=balanced"});
  forward(lab, lab.randn({12, lab.config.hidden}), lab.batch(3, 4, 8));
  // Eight tokens have two slots each over four experts. Each expert keeps half.
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{4, 4, 4, 4}));
  EXPECT_EQ(lab.observed().assignments, 16);
  EXPECT_EQ(lab.observed().dropped, 8);
}

TEST(MoeLayer, A3_PaddingChangesNoStatisticAndNoValidToken) {
  const std::vector<std::string> overrides{"model.moe.capacity_factor=0.8", "model.moe.z_loss=0.1"};
  MoeLab padded(overrides), plain(overrides);
  const Tensor x = padded.randn({12, padded.config.hidden});
  const Tensor y = forward(padded, x, padded.batch(3, 4, 7));
  const Tensor first = plain.values(values_of(x.slice(0, 0, 7)), {7, plain.config.hidden});
  const Tensor expected = forward(plain, first, plain.batch(1, 7));
  expect_close(expected, y.slice(0, 0, 7), tolerance(Dtype::f64, 100));
  expect_zeros(y.slice(0, 7, 12));
  const RouterStatistics &a = plain.observed(), &b = padded.observed();
  EXPECT_EQ(a.counts, b.counts);
  EXPECT_EQ(a.dropped, b.dropped);
  EXPECT_NEAR(a.aux_loss, b.aux_loss, tolerance(Dtype::f64, 100));
  EXPECT_NEAR(a.z_loss, b.z_loss, tolerance(Dtype::f64, 100));
}

// If a recomputation reported statistics, they would be counted twice.
TEST(MoeLayer, A4_OnlyTheFirstPassCounts) {
  for (const char* scope : {"micro_batch", "global_batch"}) {
    SCOPED_TRACE(scope);
    MoeLab lab({"model.moe.z_loss=0.1", cat("model.moe.aux_loss.scope=", scope)});
    const MicroBatch batch = lab.batch(3, 4);
    const Tensor x = lab.randn({12, lab.config.hidden});
    const auto policy = keep_policy();
    const auto observed_after = [&](Tape::Mode mode) {
      Tape tape(lab.stream(), *policy, mode);
      lab.layer(tape, tape.leaf(x), {.batch = batch, .statistics = &lab.statistics.layers});
      return lab.observed();
    };
    const RouterStatistics first = observed_after(Tape::Mode::forget);
    EXPECT_EQ(first.assignments, 24);
    EXPECT_GT(first.aux_loss, 0);
    EXPECT_GT(first.z_loss, 0);
    const RouterStatistics second = observed_after(Tape::Mode::recompute);
    EXPECT_EQ(second.counts, first.counts);
    EXPECT_EQ(second.aux_loss, first.aux_loss);
    EXPECT_EQ(second.z_loss, first.z_loss);
  }
}

TEST(MoeLayer, A4_EvaluationHasNoCountsAndNoAuxiliaryLosses) {
  MoeLab lab;
  const MicroBatch batch = lab.batch(3, 4);
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  EXPECT_FALSE(lab.layer(tape, {lab.randn({12, lab.config.hidden})}, {.batch = batch}).aux_losses.data.defined());
  EXPECT_EQ(lab.observed().assignments, 0);
}

// The difference of the logits is below the resolution of bf16.
TEST(MoeLayer, A5_RouterResolvesWeightsFinerThanBf16) {
  comm::SelfGroup self;
  MoeLab lab({"model.moe.top_k=1", "model.moe.aux_loss.coefficient=0"}, self, 1, Dtype::bf16);
  const Tensor& router = lab.parameter("router.weight").local();
  EXPECT_EQ(router.dtype(), Dtype::f32);
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), router, 0.0);
  const size_t hidden = lab.config.hidden;
  change<float>(router, [&](std::span<float> values) {
    for (size_t e = 0; e < 4; ++e) values[e * hidden] = 1 + 1e-5f * static_cast<float>(e == 2);
  });
  const Tensor x = lab.randn({12, lab.config.hidden}, Dtype::bf16);
  change<bf16>(x, [&](std::span<bf16> values) {
    for (size_t t = 0; t < 12; ++t) values[t * hidden] = bf16(1.0f);
  });
  forward(lab, x, lab.batch(3, 4));
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{0, 0, 12, 0}));
}

TEST(MoeLayer, B1_BiasMovesByTheSignOfTheLoadOnceABatch) {
  MoeLab lab({"model.moe.bias_rate=0.125"});
  ASSERT_EQ(std::distance(lab.states.begin(), lab.states.end()), 1);
  const auto& state = *lab.states.begin();
  EXPECT_EQ(state.name, "moe.router.bias");
  lab.layer.finish_batch({7, 3, 5, 5});  // the mean is 5
  lab.layer.finish_batch({9, 1, 4, 6});
  EXPECT_EQ(values_of(state.tensor), (std::vector<double>{-0.25, 0.25, 0.125, -0.125}));
}

TEST(MoeLayer, B1_BiasDoesNotMoveWhileAnOverrideChooses) {
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

TEST(MoeLayer, B1_BiasIsKeptInF32UnderBf16) {
  comm::SelfGroup self;
  MoeLab lab({"model.moe.bias_rate=0.001"}, self, 1, Dtype::bf16);
  EXPECT_EQ(lab.states.begin()->tensor.dtype(), Dtype::f32);
}

TEST(MoeLayer, B1_BiasChangesTheChoiceAndNotTheWeights) {
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

TEST(MoeLayer, R8_NanTokenDoesNotChangeOtherTokens) {
  for (const char* capacity : {"none", "0.8"}) {
    MoeLab lab({std::string("model.moe.capacity_factor=") + capacity, "model.moe.drop=position"});
    const Tensor x = lab.randn({12, lab.config.hidden});
    const Tensor before = forward(lab, x, lab.batch(3, 4));
    change<double>(x, [&](std::span<double> values) { values[11 * lab.config.hidden] = std::nan(""); });
    const Tensor after = forward(lab, x, lab.batch(3, 4));
    expect_close(before.slice(0, 0, 11), after.slice(0, 0, 11), tolerance(Dtype::f64, 100));
  }
}

TEST(MoeLayer, R8_EqualLogitsGoToTheFirstExperts) {
  MoeLab lab;
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), lab.parameter("router.weight").local(), 0.0);
  forward(lab, lab.randn({12, lab.config.hidden}), lab.batch(3, 4));
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{12, 12, 0, 0}));
}

// Results of forward and backward, with a gradient of 1 for every element of the outputs.
struct Passed {
  Tensor y, dx;
};
Passed forward_backward(MoeLab& lab, const Tensor& x, const MicroBatch& batch) {
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value in = tape.leaf(x);
  const auto out = lab.layer(tape, in, {.batch = batch, .statistics = &lab.statistics.layers});
  for (const auto& p : lab.parameters) p->clear_gradient();
  const Tensor one = Tensor::like(out.y.data), aux_losses = Tensor::like(out.aux_losses.data);
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), one, 1.0);
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), aux_losses, 1.0);
  const Replay::Root roots[] = {{out.y, one}, {out.aux_losses, aux_losses}};
  Replay replay(tape, roots);
  replay.run();
  return {out.y.data, replay.take_gradient(in)};
}

void expect_finite(const Tensor& t) {
  for (double v : values_of(t)) ASSERT_TRUE(std::isfinite(v));
}

TEST(MoeLayer, R3_ExpertsWithoutTokensGetZeroGradientsFromPoisonedMemory) {
  MoeLab lab({"model.bias=true", "model.moe.shared_experts=1"});
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), lab.parameter("router.weight").local(), 0.0);
  // All tokens choose experts 0 and 1.
  const auto [y, dx] = forward_backward(lab, lab.randn({12, lab.config.hidden}), lab.batch(3, 4));
  expect_finite(y), expect_finite(dx);
  for (const auto& p : lab.parameters) {
    SCOPED_TRACE(p->name());
    expect_finite(p->gradient());
    if (p->name().find(".experts.") == std::string::npos) continue;
    expect_zeros(p->gradient().slice(0, 2, 4));
    double sum = 0;
    for (double g : values_of(p->gradient().slice(0, 0, 2))) sum += std::abs(g);
    EXPECT_GT(sum, 0);
  }
}

TEST(MoeLayer, F26_EveryTokenToOneExpertIsDroppedToCapacityAndCounted) {
  MoeLab lab({"model.moe.top_k=1", "model.moe.capacity_factor=1"});
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), lab.parameter("router.weight").local(), 0.0);
  const auto [y, dx] = forward_backward(lab, lab.randn({12, lab.config.hidden}), lab.batch(3, 4));
  EXPECT_EQ(lab.observed().counts, (std::vector<int64_t>{12, 0, 0, 0}));
  EXPECT_EQ(lab.observed().dropped, 9);  // 3 of 12 are kept, which is the mean
  expect_zeros(y.slice(0, 3, 12));
  expect_finite(dx);
}

TEST(MoeLayer, F27_OneTokenAndNoTokenPassThrough) {
  for (const int64_t tokens : {1, 0}) {
    MoeLab lab;
    const auto [y, dx] = forward_backward(lab, lab.randn({tokens, lab.config.hidden}), lab.batch(tokens, 1));
    EXPECT_EQ(y.shape(), (Shape{tokens, lab.config.hidden}));
    EXPECT_EQ(dx.shape(), y.shape());
    expect_finite(y), expect_finite(dx);
    for (const auto& p : lab.parameters) expect_finite(p->gradient_to_add(lab.stream()));
    EXPECT_TRUE(std::isfinite(lab.observed().aux_loss));
  }
}

TEST(MoeLayer, A2_AuxiliaryLossesAreAttached) {
  const auto router_gradient = [](const std::vector<std::string>& overrides) {
    MoeLab lab(overrides);
    const Tensor x = lab.randn({12, lab.config.hidden});
    forward_backward(lab, x, lab.batch(3, 4));
    return values_of(lab.parameter("router.weight").gradient());
  };
  const auto plain = router_gradient({"model.moe.aux_loss.coefficient=1e-30"});
  EXPECT_NE(plain, router_gradient({"model.moe.aux_loss.coefficient=0.1"}));
  EXPECT_NE(plain, router_gradient({"model.moe.aux_loss.coefficient=1e-30", "model.moe.z_loss=0.1"}));
}

}  // namespace
}  // namespace hexad::tests
