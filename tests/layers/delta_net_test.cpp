// Compares delta nets with their formula, computed token by token in double, and gated attention with attention without
// a gate.
#include "layers/dense/delta_net.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/dense/attention.h"
#include "parallel/comm/self_group.h"
#include "tests/support/gradcheck.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace layers;
namespace {

using Overrides = std::vector<std::string>;
using Numbers = std::vector<double>;
const comm::SelfGroup self;
constexpr int64_t sequences = 2, length = 6;

ModelConfig model_with(const Overrides& more) {
  Overrides all{"model.delta_net.heads=4",      "model.delta_net.key_heads=2", "model.delta_net.key_size=3",
                "model.delta_net.value_size=5", "model.delta_net.conv_size=3", "model.moe.experts=0",
                "model.mlp_hidden=4",           "model.init_std=0.5",          "model.context=8"};
  all.insert(all.end(), more.begin(), more.end());
  return small_recipe(all).model;
}

// A layer and its batch.
struct Case {
  Lab lab;
  mesh::Mesh ranks{self, {.dp = 1}};
  StateSet states;
  ModelConfig c;
  DeltaNet layer;
  MicroBatch batch;

  explicit Case(const ModelConfig& model)
      : c(model), layer(c, 0, Builder(lab.parameters, states, ranks, Dtype::f64) / "delta_net") {
    for (const auto& p : lab.parameters) p->initialize(3);
    batch.sequences = sequences, batch.length = length;
  }
  // Divides each sequence into documents of two, three and one tokens.
  void divide() {
    std::vector<int32_t> first, last;
    for (int64_t s = 0; s < sequences; ++s) {
      first.insert(first.end(), {0, 0, 2, 2, 2, 5});
      last.insert(last.end(), {2, 2, 5, 5, 5, 6});
    }
    batch.first = lab.values<int32_t>(first), batch.last = lab.values<int32_t>(last);
    batch.documents = 3 * sequences;
  }
  Numbers weight(const std::string& name) {
    for (const auto& p : lab.parameters)
      if (p->name() == "delta_net." + name) return values_of(p->local());
    ADD_FAILURE() << "the layer has no parameter " << name << "; expected this parameter";
    return {};
  }
};

// Returns x[T, D] w[N, D]^T.
Numbers product(const Numbers& x, const Numbers& w, int64_t inputs) {
  const auto rows = static_cast<int64_t>(x.size()) / inputs, outputs = static_cast<int64_t>(w.size()) / inputs;
  Numbers y(rows * outputs);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i) y[r * outputs + o] += x[r * inputs + i] * w[o * inputs + i];
  return y;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Returns the first position of the document of the token at position `i`.
int64_t first_of(const Case& n, int64_t i) { return !n.batch.first.defined() ? 0 : i < 2 ? 0 : i < 5 ? 2 : 5; }

Numbers convolved(const Case& n, const Numbers& x, const Numbers& filter) {
  const int64_t taps = n.c.delta_net.conv_size, width = static_cast<int64_t>(filter.size()) / taps;
  Numbers y(x.size());
  for (int64_t t = 0; t < sequences * length; ++t)
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < taps && t % length - j >= first_of(n, t % length); ++j)
        sum += filter[c * taps + taps - 1 - j] * x[(t - j) * width + c];
      y[t * width + c] = sum * sigmoid(sum);
    }
  return y;
}

// Returns the row of `size` elements from x[begin] on, divided by its norm. 1e-6 is added to the square of the norm.
Numbers unit(const Numbers& x, int64_t begin, int64_t size) {
  Numbers row(x.begin() + begin, x.begin() + begin + size);
  double squares = 1e-6;
  for (const double v : row) squares += v * v;
  for (double& v : row) v /= std::sqrt(squares);
  return row;
}

// Computes the gated delta rule, eq. 10 of Yang et al. 2024, with the convolutions, gates and norm of Qwen3-Next. The
// gain of the norm is one.
Numbers naive(Case& n, const Numbers& x) {
  const DeltaNetConfig& d = n.c.delta_net;
  const int64_t size = d.key_size, values = d.value_size, keys = d.number_of_key_heads(), hidden = n.c.hidden;
  const auto projected = [&](const char* name) { return product(x, n.weight(std::string(name) + ".weight"), hidden); };
  const Numbers q = convolved(n, projected("q"), n.weight("q_conv.weight")),
                k = convolved(n, projected("k"), n.weight("k_conv.weight")),
                v = convolved(n, projected("v"), n.weight("v_conv.weight"));
  const Numbers gate = projected("gate"), decay = projected("decay"), write = projected("write");
  const Numbers log_rate = n.weight("log_rate"), shift = n.weight("shift");
  Numbers y(v.size());
  for (int64_t s = 0; s < sequences; ++s)
    for (int64_t h = 0; h < d.heads; ++h) {
      Numbers state(size * values);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t t = s * length + i, key = t * keys + h / (d.heads / keys), at = t * d.heads + h;
        if (first_of(n, i) == i) std::fill(state.begin(), state.end(), 0);
        const Numbers qt = unit(q, key * size, size), kt = unit(k, key * size, size);
        const double kept = std::exp(-std::exp(log_rate[h]) * std::log1p(std::exp(decay[at] + shift[h])));
        double squares = 0;
        for (int64_t u = 0; u < values; ++u) {
          double read = 0, out = 0;
          for (int64_t c = 0; c < size; ++c) read += kt[c] * (state[c * values + u] *= kept);
          for (int64_t c = 0; c < size; ++c) {
            state[c * values + u] += kt[c] * sigmoid(write[at]) * (v[at * values + u] - read);
            out += qt[c] * state[c * values + u] / std::sqrt(static_cast<double>(size));
          }
          y[at * values + u] = out;
          squares += out * out;
        }
        for (int64_t u = 0; u < values; ++u) {
          const double z = gate[at * values + u];
          y[at * values + u] *= z * sigmoid(z) / std::sqrt(squares / static_cast<double>(values) + d.norm_eps);
        }
      }
    }
  return product(y, n.weight("output.weight"), d.heads * values);
}

class DeltaNetOf : public testing::TestWithParam<Overrides> {};

TEST_P(DeltaNetOf, EqualsItsFormula) {
  for (const bool documents : {false, true}) {
    Case n(model_with(GetParam()));
    if (documents) n.divide();
    const Tensor x = n.lab.randn({sequences * length, n.c.hidden});
    const auto policy = keep_policy();
    Tape tape(n.lab.stream(), *policy, Tape::Mode::forget);
    const Value y = n.layer(tape, {x}, {.batch = n.batch});
    expect_close(n.lab.values(naive(n, values_of(x)), y.shape()), y.data, base::tolerance(Dtype::f64, 4096));
  }
}

TEST_P(DeltaNetOf, GradientsMatchFiniteDifferences) {
  Overrides overrides = GetParam();
  overrides.emplace_back("model.delta_net.norm_eps=0.5");  // a smaller eps makes finite differences inaccurate
  for (const bool documents : {false, true}) {
    Case n(model_with(overrides));
    if (documents) n.divide();
    gradcheck(n.lab, {n.lab.randn({sequences * length, n.c.hidden})},
              [&](Tape& t, const std::vector<Value>& x) { return n.layer(t, x[0], {.batch = n.batch}); },
              {.of_layers = true});
  }
}

// Returns the output of a pass over the next tokens x of a sequence. The cache receives these tokens.
Tensor pass_over(Case& n, const Tensor& x, KeyValueCache& cache) {
  MicroBatch batch;
  batch.sequences = 1, batch.length = x.dim(0);
  KeyValueCache* const caches[] = {&cache};
  const auto policy = keep_policy();
  Tape tape(n.lab.stream(), *policy, Tape::Mode::forget);
  const Tensor y = n.layer(tape, {x}, {.batch = batch, .caches = caches}).data;
  cache.length += x.dim(0);
  return y;
}

TEST_P(DeltaNetOf, EqualsItsFormulaInSeveralPassesWithAState) {
  Case n(model_with(GetParam()));
  const Tensor x = n.lab.randn({sequences * length, n.c.hidden});
  const Tensor expected = n.lab.values(naive(n, values_of(x)), x.shape());
  for (const std::vector<int64_t>& passes : {std::vector<int64_t>{1, 1, 1, 1, 1, 1}, {4, 1, 1}, {1, 3, 2}, {6}}) {
    KeyValueCache cache;
    cache.layers = {n.layer.make_cache(length, Dtype::f64, n.lab.context)};
    for (const int64_t tokens : passes) {
      const int64_t begin = cache.length, end = begin + tokens;
      expect_close(expected.slice(0, begin, end), pass_over(n, x.slice(0, begin, end), cache),
                   base::tolerance(Dtype::f64, 4096));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, DeltaNetOf,
                         testing::Values(Overrides{}, Overrides{"model.delta_net.conv_size=2"},
                                         Overrides{"model.delta_net.key_heads=auto", "model.delta_net.key_size=6",
                                                   "model.delta_net.value_size=2"}));

TEST(DeltaNet, CacheDoesNotGrowWithTheContext) {
  Case n(model_with({}));
  const KeyValueCache::Layer one = n.layer.make_cache(1, Dtype::bf16, n.lab.context);
  const KeyValueCache::Layer many = n.layer.make_cache(1000, Dtype::bf16, n.lab.context);
  EXPECT_EQ(one.state.shape(), (Shape{1, 4, 3, 5}));
  EXPECT_EQ(one.state.dtype(), Dtype::f32);
  EXPECT_EQ(many.state.shape(), one.state.shape());
  EXPECT_EQ(many.recent[2].shape(), (Shape{2, 20}));
  EXPECT_FALSE(many.keys.defined());
  EXPECT_EQ(n.c.cached_states(1), 4 * 3 * 5);
}

TEST(DeltaNet, OccursInThreeOfFourLayersAndNotInPredictionBlocks) {
  const ModelConfig c = model_with({"model.layers=8", "model.full_attention_every=4", "model.prediction_blocks=1"});
  std::vector<int64_t> delta;
  for (int64_t l = 0; l < c.blocks(); ++l)
    if (c.is_delta(l)) delta.push_back(l);
  EXPECT_EQ(delta, (std::vector<int64_t>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(c.attention_period(), 4);
}

// Every gate is the sigmoid of zero, which is one half, if its weights are zero.
TEST(GatedAttention, IsMultipliedByTheSigmoidOfTheGate) {
  const ModelConfig gated = small_recipe({"model.attention_gate=true"}).model, plain = small_recipe().model;
  const auto output = [&](const ModelConfig& c) {
    Lab lab;
    const mesh::Mesh ranks{self, {.dp = 1}};
    StateSet states;
    const Attention layer(c, nullptr, 0, Builder(lab.parameters, states, ranks, Dtype::f64) / "attention");
    for (const auto& p : lab.parameters) {
      p->initialize(3);
      if (p->name() == "attention.gate.weight")
        kernels::kernels(lab.context).pointwise.fill(lab.stream(), p->local(), 0);
    }
    MicroBatch batch;
    batch.sequences = 1, batch.length = 4;
    const auto policy = keep_policy();
    Tape tape(lab.stream(), *policy, Tape::Mode::forget);
    return values_of(layer(tape, {lab.randn({4, c.hidden})}, {.batch = batch}).data);
  };
  const Numbers with = output(gated), without = output(plain);
  ASSERT_EQ(with.size(), without.size());
  for (size_t i = 0; i < with.size(); ++i) EXPECT_NEAR(with[i], without[i] / 2, 1e-12);
}

TEST(GatedAttention, GradientsMatchFiniteDifferences) {
  const ModelConfig c = small_recipe({"model.attention_gate=true", "model.norm=zero_centred_rms_norm",
                                      "model.qk_norm=head", "model.rotary_share=0.5", "model.init_std=0.5"})
                            .model;
  Lab lab;
  const mesh::Mesh ranks{self, {.dp = 1}};
  StateSet states;
  const RotaryTable rotary(c.context, RotaryFrequencies::of(c), Dtype::f64, lab.context);
  const Attention layer(c, &rotary, 0, Builder(lab.parameters, states, ranks, Dtype::f64) / "attention");
  for (const auto& p : lab.parameters) p->initialize(3);
  MicroBatch batch;
  batch.sequences = 1, batch.length = 4;
  batch.positions = lab.values<int32_t>({0, 1, 2, 3});
  gradcheck(lab, {lab.randn({4, c.hidden})},
            [&](Tape& t, const std::vector<Value>& x) { return layer(t, x[0], {.batch = batch}); },
            {.of_layers = true});
}

}  // namespace
}  // namespace hexad::tests
