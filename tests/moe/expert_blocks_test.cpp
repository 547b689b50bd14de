// Backward of weighted rows computes blocks of rows. For an expert with several blocks, the result must be the same as
// if each step processed all rows at once.
#include <gtest/gtest.h>

#include "framework/base/block_sizes.h"
#include "layers/moe/experts/experts.h"
#include "parallel/comm/self_group.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

using layers::Builder;
using layers::StateSet;
using moe::ExpertActivations;
using moe::ExpertGradients;
using moe::ExpertKind;
using moe::Experts;
using moe::ExpertWeights;
using moe::RowGroups;

constexpr int64_t hidden = 5, width = 4;

class ExpertBlocks : public testing::TestWithParam<std::tuple<ExpertKind, bool>> {
 protected:
  static Experts::Config config() {
    return {.kind = std::get<0>(GetParam()),
            .experts = 3,
            .hidden = hidden,
            .expert_hidden = width,
            .init_std = 0.5,
            .output_init_std = 0.5,
            .bias = true,
            .gelu = {}};
  }
  ExpertBlocks() {
    for (const auto& p : lab.parameters) {
      p->initialize(Lab::default_seed);
      if (p->name().ends_with("bias")) kernels::kernels(lab.context).pointwise.fill(lab.stream(), p->local(), 0.25);
    }
  }
  // Returns the gradients by parameter, and clears them as at the beginning of a step.
  std::vector<Tensor> taken_gradients() {
    std::vector<Tensor> out;
    for (const auto& p : lab.parameters) {
      out.push_back(copy_of(p->gradient()));
      p->clear_gradient();
    }
    return out;
  }

  Lab lab;
  comm::SelfGroup self;
  mesh::Mesh mesh{self, {}};
  StateSet states;
  Experts experts{config(), Builder(lab.parameters, states, mesh, Dtype::f64)};
};

TEST_P(ExpertBlocks, WeightedBackwardInBlocksEqualsBackwardOfAllRows) {
  const int64_t block = BlockSizes{}.expert_rows;
  // The experts have two blocks and 7 rows, no rows, and exactly two blocks.
  const std::vector<int64_t> offsets{0, 2 * block + 7, 2 * block + 7, 4 * block + 7};
  const int64_t rows = offsets.back();
  const RowGroups groups{.rows = GroupOffsets::on_host(offsets), .dense = std::get<1>(GetParam())};
  const Tensor x = lab.randn({rows, hidden}), dout = lab.randn({rows, hidden}), weights = lab.randn({rows}),
               own = Tensor::empty({rows}, Dtype::i64, lab.context);
  Stream& s = lab.stream();
  const auto& k = kernels::kernels(lab.context);
  k.slots.iota(s, own, 0);
  const ExpertWeights held = experts.hold(s, Direction::backward);

  ExpertActivations made = held.activations(s, x, groups, {});
  const Tensor dweights = Tensor::like(weights), weighed = Tensor::like(dout);
  k.permute.row_dots(s, dweights, dout, held.output(s, made, groups));
  k.permute.gather_weighted(s, weighed, dout, own, weights);
  const ExpertGradients gradients = held.input_gradients(s, made, weighed, groups, {});
  experts.weight_gradients(s, x, made, gradients, weighed, groups);
  const std::vector<Tensor> expected = taken_gradients();

  const auto [drows, drow_weights] =
      experts.backward_weighted(s, held, x, held.before_activation(s, x, groups), dout, weights, groups);
  const double allowed = tolerance(Dtype::f64, rows * width);
  expect_close(gradients.rows, drows, allowed);
  expect_close(dweights, drow_weights, allowed);
  const std::vector<Tensor> actual = taken_gradients();
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE((*(lab.parameters.begin() + static_cast<std::ptrdiff_t>(i)))->name());
    expect_close(expected[i], actual[i], allowed, Zeros::expected);
  }
}

INSTANTIATE_TEST_SUITE_P(, ExpertBlocks,
                         testing::Combine(testing::Values(ExpertKind::swiglu, ExpertKind::gelu), testing::Bool()),
                         [](const auto& i) {
                           return std::string(std::get<0>(i.param) == ExpertKind::swiglu ? "Swiglu" : "Gelu") +
                                  (std::get<1>(i.param) ? "OneByOne" : "Grouped");
                         });

}  // namespace
}  // namespace hexad::tests
