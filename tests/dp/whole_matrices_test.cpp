// Gathers of matrices that are cut over tp, and whose elements are divided among owners by ZeRO.
#include "parallel/dp/whole_matrices.h"

#include <gtest/gtest.h>

#include "parallel/comm/thread_group.h"
#include "parallel/dp/bucket_plan.h"
#include "tests/support/compare.h"
#include "tests/support/on_device.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

using dp::WholeMatrices;
using dp::Zero;

const Shape global{2, 6, 5};

// Returns, for each element of `region`, its index in the global tensor, counted from 1.
std::vector<double> numbers_of(const Placement::Region& region) {
  std::vector<double> out;
  for (int64_t m = 0; m < region.size[0]; ++m)
    for (int64_t r = 0; r < region.size[1]; ++r)
      for (int64_t c = 0; c < region.size[2]; ++c)
        out.push_back(static_cast<double>(((region.begin[0] + m) * global[1] + region.begin[1] + r) * global[2] +
                                          region.begin[2] + c + 1));
  return out;
}

struct Case {
  std::string name;
  int ranks;
  mesh::Sizes sizes;
  int dim;    // dimension that tp cuts
  int parts;  // number of parts into which tp cuts `dim`
  Zero zero;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Gathers : public testing::TestWithParam<Case> {};

TEST_P(Gathers, WholeMatricesAndReturnsTheOwnedElements) {
  const Case& c = GetParam();
  comm::with_ranks(c.ranks, [&](const comm::ProcessGroup& world) {
    device::DeviceContext context(tests::on_test_device({.poison = true}));
    const mesh::Mesh mesh(world, c.sizes, {.tensor_pieces = c.parts < c.sizes.tp ? c.parts : 0});
    ParameterSet set(context);
    const int tp = mesh.size(Axis::tp);
    Placement placement{.shards = {{Axis::tp, c.dim, c.parts, mesh.coordinate(Axis::tp) * c.parts / tp}}};
    if (c.parts < tp) placement.partial = {Axis::tp};
    const Parameter& p =
        set.add({.name = "w", .global_shape = global, .placement = placement, .dtype = Dtype::f64, .init = {}});
    const dp::BucketPlan plan(set, mesh, {.zero = c.zero});
    const WholeMatrices matrices(p, &mesh);
    EXPECT_EQ(matrices.count(), p.region().size[0]);

    device::Stream& stream = context.compute();
    const std::vector<double> local = numbers_of(p.region());
    const std::vector<double> mine(local.begin() + p.owned().begin, local.begin() + p.owned().end);
    Tensor owned;
    if (!mine.empty()) {
      owned = Tensor::empty({static_cast<int64_t>(mine.size())}, Dtype::f64, set.device());
      tests::assign(owned, mine);
    }
    const Tensor whole = matrices.gather(owned, stream);
    Placement::Region all = p.region();
    for (const int d : {1, 2}) all.begin[d] = 0, all.size[d] = global[d];
    EXPECT_EQ(whole.shape(), all.size);
    EXPECT_EQ(values_of(whole), numbers_of(all));
    EXPECT_EQ(values_of(matrices.owned(whole, stream)), mine);
    for (int64_t m = 0; m < matrices.count(); ++m) {
      const int64_t size = std::ssize(local) / matrices.count();
      EXPECT_EQ(matrices.owns_part_of(m),
                p.owned().begin < (m + 1) * size && p.owned().end > m * size && !mine.empty());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, Gathers,
                         testing::Values(Case{"OneRank", 1, {}, 1, 1, Zero::nothing},
                                         Case{"Replicas", 2, {.dp = 2}, 1, 1, Zero::nothing},
                                         Case{"Owners", 3, {.dp = 3}, 1, 1, Zero::states},
                                         Case{"OwnersOfWeights", 4, {.dp = 4}, 1, 1, Zero::weights},
                                         Case{"Rows", 2, {.dp = 1, .tp = 2}, 1, 2, Zero::nothing},
                                         Case{"Columns", 4, {.dp = 1, .tp = 4}, 2, 4, Zero::nothing},
                                         Case{"Stacks", 2, {.dp = 1, .tp = 2}, 0, 2, Zero::nothing},
                                         Case{"SharedRows", 4, {.dp = 1, .tp = 4}, 1, 2, Zero::nothing},
                                         Case{"OwnersOfSharedRows", 4, {.dp = 1, .tp = 4}, 1, 2, Zero::gradients},
                                         Case{"OwnersOfColumns", 4, {.dp = 2, .tp = 2}, 2, 2, Zero::states}),
                         [](const auto& i) { return i.param.name; });

TEST(WholeMatrices, DividedParametersNeedAMesh) {
  device::DeviceContext context(tests::on_test_device());
  ParameterSet set(context);
  const Parameter& p = set.add({.name = "w",
                                .global_shape = global,
                                .placement = {.shards = {{Axis::tp, 1, 2, 0}}},
                                .dtype = Dtype::f64,
                                .init = {}});
  EXPECT_THROW(WholeMatrices(p, nullptr), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
