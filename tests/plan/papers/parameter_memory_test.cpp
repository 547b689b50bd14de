// Compares formulas of parameter memory with counts by hand, and parameters on a meta device with the parameters of a
// run.
#include "tools/plan/papers/parameter_memory.h"

#include <gtest/gtest.h>

#include "framework/device/meta/meta_run.h"
#include "parallel/comm/imagined_group.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

using namespace plan;

using plan::kept_bytes;

constexpr plan::ParameterBytes f32_gradients{.weights = 2, .gradients = 4, .optimizer = 12};

TEST(ParameterMemory, DividesMemoryByTheZeroLevel) {
  EXPECT_EQ(kept_bytes(f32_gradients, 0, 4).total(), 18);
  EXPECT_EQ(kept_bytes(f32_gradients, 1, 4).total(), 6 + 12 / 4.0);
  EXPECT_EQ(kept_bytes(f32_gradients, 2, 4).total(), 2 + 16 / 4.0);
  EXPECT_EQ(kept_bytes(f32_gradients, 3, 4).total(), 18 / 4.0);
  for (const int64_t level : {0, 1, 2, 3})
    EXPECT_EQ(kept_bytes(f32_gradients, level, 1).total(), 18) << "a parameter without replicas is not divided";
  EXPECT_THROW(kept_bytes(f32_gradients, 4, 1), std::logic_error);
}

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

struct Held {
  std::string name;
  base::Shape global, local;
  base::Dtype dtype;
  int sharers;
  int64_t owned;
  bool operator==(const Held&) const = default;
};
void PrintTo(const Held& h, std::ostream* out) {
  *out << h.name << " " << h.global << ", here " << h.local << " " << h.dtype << ", " << h.owned << " of it owned, of "
       << h.sharers << " ranks";
}

std::vector<Held> held_by(const ModelInstance& instance) {
  std::vector<Held> all;
  for (const auto& p : instance.parameters)
    all.push_back({p->name(), p->global_shape(), p->shape(), p->dtype(), instance.mesh.reducers(p->placement()).size(),
                   p->owned().size()});
  return all;
}

class HeldParameters : public testing::TestWithParam<Case> {};

// Compares each rank of a group with the rank of the same number on the meta device, which has no peers.
TEST_P(HeldParameters, AreTheSameOnAMetaDevice) {
  const Recipe recipe = small_recipe(GetParam().overrides);
  on_ranks(GetParam().ranks, [&](const comm::ProcessGroup& world) {
    const ModelInstance instance(recipe, Registry(), world);
    const comm::ImaginedGroup alone(world.rank(), world.size());
    const ModelInstance imagined(recipe, Registry(), alone, {},
                                 std::make_shared<device::MetaRun>(device::DeviceKind::cpu));
    EXPECT_EQ(held_by(imagined), held_by(instance)) << "rank " << world.rank();
    const auto bytes = [](const ModelInstance& i) {
      return i.context.allocator()->stats().used_in(device::Category::parameter);
    };
    EXPECT_EQ(bytes(imagined), bytes(instance));
  });
}

INSTANTIATE_TEST_SUITE_P(
    , HeldParameters,
    testing::Values(
        Case{"Alone", 1, {"train.precision=bf16"}}, Case{"Dense", 2, {"model.moe.experts=0", "model.bias=true"}},
        Case{"Experts", 4, {"parallel.ep=2", "train.precision=bf16", "model.bias=true"}},
        Case{"Tensors", 4, {"parallel.tp=4", "train.precision=bf16", "model.qk_norm=head", "model.bias=true"}},
        Case{"NormOverAllHeads", 4, {"parallel.tp=4", "model.qk_norm=all_heads", "parallel.zero=1"}},
        Case{"Sequences",
             4,
             {"parallel.tp=2", "parallel.sp=true", "parallel.ep=2", "model.bias=true", "model.norm=layer_norm",
              "train.precision=bf16"}},
        Case{"ExpertTensors",
             4,
             {"parallel.etp=2", "parallel.ep=2", "model.bias=true", "train.precision=bf16",
              "model.moe.expert_hidden=7"}},
        Case{"Shared",
             2,
             {"model.moe.shared_experts=1", "model.moe.dense_residual=true", "parallel.tp=2", "train.precision=bf16"}},
        Case{"Stages", 4, {"parallel.pp=2", "train.precision=bf16"}},
        Case{"TiedStages",
             4,
             {"parallel.pp=2", "model.tied_embedding=true", "train.precision=bf16", "model.position=learned"}},
        Case{"Tied", 2, {"model.tied_embedding=true", "train.precision=bf16"}},
        Case{"PredictingStages", 4, {"parallel.pp=2", "model.prediction_blocks=1", "train.precision=bf16"}},
        Case{"Contexts", 4, {"parallel.cp=2", "train.precision=bf16"}},
        Case{"Pieces", 4, {"parallel.ep=2", "parallel.zero=3", "train.precision=bf16"}}),
    [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
