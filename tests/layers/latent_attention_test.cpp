// Compares latent attention with its formula, computed in double by plain loops.
#include "layers/dense/latent_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parallel/comm/self_group.h"
#include "tests/support/gradcheck.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace layers;
namespace {

using Overrides = std::vector<std::string>;
const comm::SelfGroup self;
constexpr int64_t sequences = 2, length = 5;

ModelConfig model_with(const Overrides& more) {
  Overrides all{"model.attention=latent",    "model.kv_heads=auto",      "model.head_size=auto",
                "model.latent.kv_rank=5",    "model.latent.nope_size=3", "model.latent.rope_size=4",
                "model.latent.value_size=2", "model.moe.experts=0",      "model.mlp_hidden=4",
                "model.init_std=0.5",        "model.context=8"};
  all.insert(all.end(), more.begin(), more.end());
  return small_recipe(all).model;
}

// A layer and its batch.
struct Case {
  Lab lab;
  mesh::Mesh ranks{self, {.dp = 1}};
  StateSet states;
  ModelConfig c;
  RotaryTable rotary;
  LatentAttention layer;
  MicroBatch batch;

  explicit Case(const ModelConfig& model)
      : c(model),
        rotary(c.context, RotaryFrequencies::of(c), Dtype::f64, lab.context),
        layer(c, rotary, 0, Builder(lab.parameters, states, ranks, Dtype::f64) / "attention") {
    for (const auto& p : lab.parameters) p->initialize(3);
    batch.sequences = sequences, batch.length = length;
    std::vector<int32_t> positions;
    for (int32_t i = 0; i < sequences * length; ++i) positions.push_back(i % static_cast<int32_t>(length));
    batch.positions = lab.values<int32_t>(positions);
  }

  std::vector<double> weight(const std::string& name) {
    for (const auto& p : lab.parameters)
      if (p->name() == "attention." + name) return values_of(p->local());
    ADD_FAILURE() << "the layer has no parameter " << name << "; expected this parameter";
    return {};
  }
};

// Returns x[T, D] w[N, D]^T.
std::vector<double> product(const std::vector<double>& x, const std::vector<double>& w, int64_t inputs) {
  const auto rows = static_cast<int64_t>(x.size()) / inputs, outputs = static_cast<int64_t>(w.size()) / inputs;
  std::vector<double> y(rows * outputs);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i) y[r * outputs + o] += x[r * inputs + i] * w[o * inputs + i];
  return y;
}

std::vector<double> normed(std::vector<double> x, int64_t size, double eps) {
  for (size_t row = 0; row < x.size(); row += size) {
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += x[row + i] * x[row + i];
    for (int64_t i = 0; i < size; ++i) x[row + i] /= std::sqrt(squares / static_cast<double>(size) + eps);
  }
  return x;
}

// Rotates the `size` elements from x[at] on by the angles of `position`.
void turn(std::vector<double>& x, int64_t at, int64_t position, int64_t size, const ModelConfig& c) {
  for (int64_t i = 0; i < size / 2; ++i) {
    const double angle = static_cast<double>(position) *
                         std::pow(c.rotary_theta, -2.0 * static_cast<double>(i) / static_cast<double>(size));
    double &a = x[at + i], &b = x[at + i + size / 2];
    const double before = a;
    a = before * std::cos(angle) - b * std::sin(angle);
    b = before * std::sin(angle) + b * std::cos(angle);
  }
}

// Computes the formula of DeepSeek-V2, section 2.1, with sinks and a window if the model has them. The gains of new
// norms are one.
std::vector<double> naive(Case& n, const std::vector<double>& x) {
  const ModelConfig& c = n.c;
  const auto& [q_rank, kv_rank, nope, rope, size, eps] = c.latent;
  const int64_t key = rope + nope;
  std::vector<double> q = q_rank == 0 ? product(x, n.weight("q.weight"), c.hidden)
                                      : product(normed(product(x, n.weight("q_down.weight"), c.hidden), q_rank, eps),
                                                n.weight("q_up.weight"), q_rank);
  std::vector<double> shared = product(x, n.weight("k_rope.weight"), c.hidden);
  const auto latent = normed(product(x, n.weight("kv_down.weight"), c.hidden), kv_rank, eps);
  const auto k = product(latent, n.weight("k_up.weight"), kv_rank),
             v = product(latent, n.weight("v_up.weight"), kv_rank);
  for (int64_t t = 0; t < sequences * length; ++t) {
    turn(shared, t * rope, t % length, rope, c);
    for (int64_t h = 0; h < c.heads; ++h) turn(q, (t * c.heads + h) * key, t % length, rope, c);
  }
  const auto sinks = c.sinks ? n.weight("sinks") : std::vector<double>();
  const int64_t window = c.window_of(0);
  std::vector<double> y(sequences * length * c.heads * size);
  for (int64_t t = 0; t < sequences * length; ++t)
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t first = std::max(t / length * length, window > 0 ? t - window + 1 : 0);
      double total = c.sinks ? std::exp(sinks[h]) : 0;
      std::vector<double> e;
      for (int64_t s = first; s <= t; ++s) {
        double score = 0;
        for (int64_t i = 0; i < rope; ++i) score += q[(t * c.heads + h) * key + i] * shared[s * rope + i];
        for (int64_t i = 0; i < nope; ++i)
          score += q[(t * c.heads + h) * key + rope + i] * k[(s * c.heads + h) * nope + i];
        e.push_back(std::exp(score / std::sqrt(static_cast<double>(key))));
        total += e.back();
      }
      for (int64_t s = first; s <= t; ++s)
        for (int64_t i = 0; i < size; ++i)
          y[(t * c.heads + h) * size + i] += e[s - first] / total * v[(s * c.heads + h) * size + i];
    }
  return product(y, n.weight("output.weight"), c.heads * size);
}

class LatentAttentionWith : public testing::TestWithParam<Overrides> {};

TEST_P(LatentAttentionWith, OutputsEqualTheFormula) {
  Case n(model_with(GetParam()));
  const Tensor x = n.lab.randn({sequences * length, n.c.hidden});
  const auto policy = keep_policy();
  Tape tape(n.lab.stream(), *policy, Tape::Mode::forget);
  const Value y = n.layer(tape, {x}, {.batch = n.batch});
  const Tensor expected = n.lab.values(naive(n, values_of(x)), y.shape());
  expect_close(expected, y.data, base::tolerance(Dtype::f64, 1024));
}

TEST_P(LatentAttentionWith, GradientsMatchFiniteDifferences) {
  Case n(model_with(GetParam()));
  gradcheck(n.lab, {n.lab.randn({sequences * length, n.c.hidden})},
            [&](Tape& t, const std::vector<Value>& x) { return n.layer(t, x[0], {.batch = n.batch}); },
            {.of_layers = true});
}

INSTANTIATE_TEST_SUITE_P(, LatentAttentionWith,
                         testing::Values(Overrides{}, Overrides{"model.latent.q_rank=3"},
                                         Overrides{"model.latent.value_size=7", "model.latent.q_rank=6"},
                                         Overrides{"model.sinks=true", "model.window=3"}));

TEST(LatentAttention, YarnMagnitudesFollowMscaleAndMscaleAllDim) {
  YarnConfig yarn;
  yarn.factor = 40, yarn.mscale = 1, yarn.mscale_all_dim = 1;
  EXPECT_DOUBLE_EQ(yarn.score_magnitude(), 0.1 * std::log(40.0) + 1);
  EXPECT_DOUBLE_EQ(yarn.table_magnitude(), 1);
  yarn.mscale_all_dim = 0;
  EXPECT_DOUBLE_EQ(yarn.score_magnitude(), 1);
  EXPECT_DOUBLE_EQ(yarn.table_magnitude(), 0.1 * std::log(40.0) + 1);
}

// Returns an empty cache for a sequence of up to `tokens` tokens.
KeyValueCache cache_of(Case& n, int64_t tokens) {
  KeyValueCache cache;
  cache.layers = {n.layer.make_cache(tokens, Dtype::f64, n.lab.context)};
  kernels::kernels(n.lab.context).pointwise.fill(n.lab.stream(), cache.layers[0].keys, 0);
  return cache;
}

// Returns the output of a pass over the next tokens x of a sequence. The cache receives these tokens.
Tensor pass_over(Case& n, const Tensor& x, KeyValueCache& cache) {
  MicroBatch batch;
  batch.sequences = 1, batch.length = x.dim(0);
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < x.dim(0); ++i) positions.push_back(static_cast<int32_t>(cache.length + i));
  batch.positions = n.lab.values<int32_t>(positions);
  KeyValueCache* const caches[] = {&cache};
  const auto policy = keep_policy();
  Tape tape(n.lab.stream(), *policy, Tape::Mode::forget);
  const Tensor y = n.layer(tape, {x}, {.batch = batch, .caches = caches}).data;
  cache.length += x.dim(0);
  return y;
}

// A pass over one token attends to the rows of the cache. A longer pass computes keys and values.
TEST_P(LatentAttentionWith, CachedPassesEqualTheFormula) {
  Case n(model_with(GetParam()));
  const Tensor x = n.lab.randn({sequences * length, n.c.hidden});
  const Tensor expected = n.lab.values(naive(n, values_of(x)), x.shape());
  for (const std::vector<int64_t>& passes : {std::vector<int64_t>{1, 1, 1, 1, 1}, {3, 1, 1}, {1, 3, 1}, {5}}) {
    KeyValueCache cache = cache_of(n, length);
    for (const int64_t tokens : passes) {
      const int64_t begin = cache.length, end = begin + tokens;
      const Tensor y = pass_over(n, x.slice(0, begin, end), cache);
      expect_close(expected.slice(0, begin, end), y, base::tolerance(Dtype::f64, 1024));
    }
  }
}

// Keys alone would have 4 heads of 7 elements for each of the 512 tokens.
TEST(LatentAttention, PassOverOneTokenMakesNoKeysAndValues) {
  constexpr int64_t tokens = 512, keys = tokens * 4 * 7 * 8;
  const auto bytes = [](int64_t new_tokens) {
    Case n(model_with({"model.context=512"}));
    EXPECT_EQ(n.c.heads * n.c.latent.key_size(), 4 * 7);
    KeyValueCache cache = cache_of(n, tokens);
    cache.length = tokens - new_tokens;
    const Tensor x = n.lab.randn({new_tokens, n.c.hidden});
    device::Allocator& memory = *n.lab.context.allocator();
    memory.reset_peaks();
    const int64_t before = memory.stats().total;
    pass_over(n, x, cache);
    return memory.stats().peak_total - before;
  };
  EXPECT_LT(bytes(1), keys / 4);
  EXPECT_GT(bytes(2), 2 * keys) << "a pass over two tokens makes keys and values";
}

TEST(LatentAttention, CacheHoldsTheLatentAndOneRotaryPart) {
  Case n(model_with({}));
  const KeyValueCache::Layer cache = n.layer.make_cache(6, Dtype::f64, n.lab.context);
  EXPECT_EQ(cache.keys.shape(), (Shape{6, 1, 5 + 4}));
  EXPECT_FALSE(cache.values.defined());
  EXPECT_EQ(n.c.cached_elements(1), 5 + 4);
  EXPECT_EQ(n.c.cached_elements(2), 5 + 4) << "every tp rank holds the whole latent";
}

}  // namespace
}  // namespace hexad::tests
