// The global gradient norm counts every parameter exactly once, whichever ranks hold it.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/block_sizes.h"
#include "optim/gradient_norm.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/dp/bucket_plan.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

Parameter& add(ParameterSet& set, const std::string& name, int64_t size, const Placement& placement,
               Dtype dtype = Dtype::f64) {
  return set.add({.name = name, .global_shape = {size}, .placement = placement, .dtype = dtype, .init = {}});
}

void fill(Parameter& p, double value, device::DeviceContext& context) {
  p.clear_gradient();
  kernels::kernels(context).pointwise.fill(context.compute(), p.gradient_to_add(context.compute()), value);
}

double norm_of(ParameterSet& set, const mesh::Mesh& mesh) {
  const dp::BucketPlan plan(set, mesh, {});
  Stream& stream = set.device().context().compute();
  const Tensor sum = Tensor::empty({1}, Dtype::f64, set.device());
  optim::squared_gradient_norm(sum, set, mesh, stream);
  mesh.world().all_reduce(sum, comm::Reduce::sum, stream).wait();
  return std::sqrt(sum.to_vector<double>()[0]);
}

Placement expert(const mesh::Mesh& mesh) {
  return {MeshView::expert, {{Axis::ep, 0, mesh.size(Axis::ep), mesh.coordinate(Axis::ep)}}};
}

// Returns the norm of the gradients of dense and expert weights.
// - The dense gradients are 16 elements of 0.5. Their sum of squares is 4.
// - The expert gradients are 1, 2, 3 and 4, one in each shard if ep is 4. Their sum of squares is 30.
double norm_under(const comm::ProcessGroup& world, int ep) {
  device::DeviceContext context(tests::on_test_device({.poison = true}));
  const mesh::Mesh mesh(world, {.dp = world.size(), .ep = ep});
  ParameterSet set(context);
  Parameter &dense = add(set, "dense", 16, {}), &experts = add(set, "experts", 4, expert(mesh));
  fill(dense, 0.5, context);
  fill(experts, 0, context);
  const int64_t local = 4 / ep;
  std::vector<double> values;
  for (int64_t i = 0; i < local; ++i) values.push_back(static_cast<double>(mesh.coordinate(Axis::ep) * local + i + 1));
  tests::assign(experts.gradient(), values);
  return norm_of(set, mesh);
}

TEST(GradientNorm, CountsReplicatedParametersOnceAndEveryExpertOnce) {
  for (const auto& [ranks, ep] : {std::pair{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {4, 4}})
    comm::with_ranks(ranks, [ep = ep](const comm::ProcessGroup& world) {
      EXPECT_DOUBLE_EQ(norm_under(world, ep), std::sqrt(34.0)) << world.size() << " ranks, ep " << ep;
    });
}

// The kernels sum a tensor in blocks.
TEST(GradientNorm, CountsEveryElementOfATensorOfSeveralBlocks) {
  for (const int64_t size : {2 * BlockSizes{}.total_elements, 2 * BlockSizes{}.total_elements + 3}) {
    device::DeviceContext context(tests::on_test_device({.poison = true}));
    const comm::SelfGroup self;
    const mesh::Mesh mesh(self, {});
    ParameterSet set(context);
    Parameter& p = add(set, "w", size, {});
    p.clear_gradient();
    std::vector<double> values(size);
    double squares = 0;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 5), squares += values[i] * values[i];
    tests::assign(p.gradient_to_add(context.compute()), values);
    EXPECT_EQ(norm_of(set, mesh), std::sqrt(squares));
  }
}

TEST(GradientNorm, RankWithoutGradientsJoins) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    device::DeviceContext context(tests::on_test_device({.poison = true}));
    const mesh::Mesh mesh(world, {.dp = 2, .ep = 2});
    ParameterSet set(context);
    Parameter& experts = add(set, "experts", 4, expert(mesh));
    if (world.rank() == 0) fill(experts, 3, context);
    EXPECT_DOUBLE_EQ(norm_of(set, mesh), std::sqrt(18.0));
  });
}

TEST(GradientNorm, IsZeroWithoutGradients) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    device::DeviceContext context(tests::on_test_device({.poison = true}));
    const mesh::Mesh mesh(world, {.dp = 2, .ep = 2});
    ParameterSet set(context);
    add(set, "dense", 16, {}), add(set, "experts", 4, expert(mesh));
    EXPECT_EQ(norm_of(set, mesh), 0);
  });
}

// Squares beyond the range of f32 are summed in double.
TEST(GradientNorm, DoesNotOverflowInF32) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    device::DeviceContext context(tests::on_test_device({.poison = true}));
    const mesh::Mesh mesh(world, {.dp = 2});
    ParameterSet set(context);
    fill(add(set, "dense", 4, {}, Dtype::f32), 1e30, context);
    const double norm = norm_of(set, mesh);
    EXPECT_NEAR(norm / 2e30, 1, 1e-6);
  });
}

TEST(GradientNorm, IsNanOnEveryRankIfOneRankHasANan) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    device::DeviceContext context(tests::on_test_device({.poison = true}));
    const mesh::Mesh mesh(world, {.dp = 2, .ep = 2});
    ParameterSet set(context);
    fill(add(set, "experts", 4, expert(mesh)), world.rank() == 1 ? NAN : 1.0, context);
    EXPECT_TRUE(std::isnan(norm_of(set, mesh)));
  });
}

}  // namespace
}  // namespace hexad::tests
