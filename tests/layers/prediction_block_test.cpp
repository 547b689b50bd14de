// Compares a prediction block with its formula. Plain loops compute the norms and the projection, and a Block computes
// the rest.
#include "layers/prediction_block.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parallel/comm/self_group.h"
#include "tests/support/gradcheck.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace layers;
namespace {

const comm::SelfGroup self;
const moe::MoeSchedule schedule;
constexpr int64_t sequences = 2, length = 5, rows = sequences * length;

ModelConfig model() {
  return small_recipe({"model.position=learned", "model.moe.experts=0", "model.mlp_hidden=20", "model.init_std=0.5",
                       "model.prediction_blocks=1"})
      .model;
}

// Layer of type L with the name of prediction block 0, and its inputs. In two cases with different types L, parameters
// with equal names have equal initial values.
template <class L>
struct Case {
  Lab lab;
  mesh::Mesh ranks{self, {.dp = 1}};
  StateSet states;
  Registry registry;
  ModelConfig c = model();
  L layer{Block::Spec{c, nullptr, c.layers, registry, schedule},
          Builder(lab.parameters, states, ranks, Dtype::f64) / "prediction" / "0"};
  MicroBatch batch;

  Case() {
    for (const auto& p : lab.parameters) p->initialize(3);
    batch.sequences = sequences, batch.length = length;
  }
};

// Returns RMSNorm of rows of `size` elements. The weights of new norms are one.
std::vector<double> normed(std::vector<double> x, int64_t size, double eps) {
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(size)) {
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += x[row + i] * x[row + i];
    for (int64_t i = 0; i < size; ++i) x[row + i] /= std::sqrt(squares / static_cast<double>(size) + eps);
  }
  return x;
}

TEST(PredictionBlock, EqualsTheFormula) {
  Case<PredictionBlock> n;
  const int64_t size = n.c.hidden;
  const Tensor token = n.lab.randn({rows, size}), hidden = n.lab.randn({rows, size});
  const auto policy = keep_policy();
  Tape tape(n.lab.stream(), *policy, Tape::Mode::forget);
  const Value y = n.layer(tape, {token}, {hidden}, {.batch = n.batch}, Recompute::none).hidden;

  const auto left = normed(values_of(token), size, n.c.norm_eps), right = normed(values_of(hidden), size, n.c.norm_eps);
  const auto w = values_of(n.lab.parameters.find("prediction.0.projection.weight").local());
  std::vector<double> projected(rows * size);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < size; ++o)
      for (int64_t i = 0; i < size; ++i)
        projected[r * size + o] +=
            w[o * 2 * size + i] * left[r * size + i] + w[o * 2 * size + size + i] * right[r * size + i];

  Case<Block> plain;
  Tape other(plain.lab.stream(), *policy, Tape::Mode::forget);
  const Tensor input = plain.lab.values(projected, {rows, size});
  const Tensor block = plain.layer(other, {input}, {.batch = plain.batch}, Recompute::none).x.data;
  const Tensor expected = n.lab.values(normed(values_of(block), size, n.c.norm_eps), {rows, size});
  expect_close(expected, y.data, base::tolerance(Dtype::f64, 1024));
}

TEST(PredictionBlock, GradientsMatchFiniteDifferences) {
  for (const Recompute recompute : {Recompute::none, Recompute::block}) {
    Case<PredictionBlock> n;
    gradcheck(n.lab, {n.lab.randn({rows, n.c.hidden}), n.lab.randn({rows, n.c.hidden})},
              [&](Tape& t, const std::vector<Value>& x) {
                return n.layer(t, x[0], x[1], {.batch = n.batch}, recompute).hidden;
              },
              {.of_layers = true});
  }
}

}  // namespace
}  // namespace hexad::tests
