// Settings that the device does not support are reported. HEXAD_DEVICE and callers override the device.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/train/recipe/small_yaml.h"
#include "tests/training/training.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::tests {

using namespace layers;
using namespace train;
namespace {

TEST(Recipe, NcclNeedsDeviceCudaAndNetworkClassesNeedPriorities) {
  EXPECT_NE(problem({"distributed.device_collectives=nccl"}, 2)
                .find("distributed.device_collectives (nccl) needs device: cuda, but device is cpu"),
            std::string::npos);
  EXPECT_NE(problem({"distributed.priority=[ep]", "distributed.network_classes=[3, 2]"})
                .find("distributed.network_classes ([3, 2]) has 2 numbers, but distributed.priority lists only 1;"),
            std::string::npos);
}

TEST(Recipe, RegisteredBuffersNeedNccl) {
  EXPECT_NE(problem({"distributed.register_buffers=true", "distributed.device_collectives=host"})
                .find("distributed.register_buffers (true) needs NCCL, but distributed.device_collectives is host"),
            std::string::npos);
}

TEST(Recipe, ReservedMultiprocessorsNeedDeviceCuda) {
  EXPECT_NE(problem({"distributed.reserve_multiprocessors=8"})
                .find("distributed.reserve_multiprocessors (8) needs device: cuda, but device is cpu"),
            std::string::npos);
  EXPECT_EQ(
      recipe_of(yaml, {"distributed.reserve_multiprocessors=8", "device=cuda"}).distributed.reserve_multiprocessors, 8);
  EXPECT_FALSE(recipe_of(yaml).distributed.reserve_multiprocessors);
}

const std::vector<std::string> of_a_card{"device=cuda", "distributed.reserve_multiprocessors=8",
                                         "distributed.device_collectives=nccl", "distributed.register_buffers=true"};

TEST(Recipe, ExternalDeviceReplacesValuesForTheRecipesDevice) {
  const auto load = [](const std::vector<std::string>& overrides, device::DeviceKind device) {
    return load_recipe(config::parse(yaml, "test.yaml", overrides), Registry(), 0, {}, device);
  };
  for (const auto device : {device::DeviceKind::cpu, device::DeviceKind::emulated}) {
    const Recipe r = load(of_a_card, device);
    EXPECT_EQ(r.device, device);
    EXPECT_EQ(r.distributed.device_collectives, comm::DeviceCollectives::automatic);
    EXPECT_FALSE(r.distributed.reserve_multiprocessors);
  }
  const Recipe same = load(of_a_card, device::DeviceKind::cuda);
  EXPECT_EQ(same.distributed.device_collectives, comm::DeviceCollectives::nccl);
  EXPECT_EQ(same.distributed.reserve_multiprocessors, 8);
  EXPECT_EQ(load({"device=cuda", "distributed.device_collectives=host"}, device::DeviceKind::cpu)
                .distributed.device_collectives,
            comm::DeviceCollectives::host);
  EXPECT_FALSE(load({"schedule.worker_lanes=true"}, device::DeviceKind::emulated).schedule.worker_lanes);
  EXPECT_EQ(load({"schedule.worker_lanes=false"}, device::DeviceKind::emulated).schedule.worker_lanes, false);
  EXPECT_EQ(load({"schedule.worker_lanes=true"}, device::DeviceKind::cpu).schedule.worker_lanes, true);
}

TEST(Recipe, DeviceOfTheEnvironmentIsExternal) {
  ASSERT_EQ(::setenv("HEXAD_DEVICE", "cpu", 1), 0);
  EXPECT_EQ(recipe_of(yaml, of_a_card).device, device::DeviceKind::cpu);
  EXPECT_NE(problem({"distributed.reserve_multiprocessors=8"}).find("needs device: cuda, but device is cpu"),
            std::string::npos);
  ASSERT_EQ(::setenv("HEXAD_DEVICE", "abacus", 1), 0);
  EXPECT_NE(
      problem({}).find("is set by HEXAD_DEVICE=abacus, which is not a device; expected one of cpu, cuda, emulated"),
      std::string::npos);
  ASSERT_EQ(::unsetenv("HEXAD_DEVICE"), 0);
}

}  // namespace
}  // namespace hexad::tests
