#include "tools/plan/cluster_device.h"

#include <gtest/gtest.h>

#include "tests/plan/two_nodes.h"

namespace hexad::tests {

using namespace plan;

namespace {

struct Result {
  std::string device, warning;
};

// Returns the value of `device` that the recipe gets on `cluster`, and the warning.
Result result_of(const Cluster& cluster, const std::string& recipe) {
  Result result;
  const config::Document document = on_device_of(cluster, "c.yaml", config::parse(recipe, "r.yaml"),
                                                 [&](const std::string& line) { result.warning += line; });
  result.device = document.root.find("device")->text;
  return result;
}

Cluster of_cpus() {
  Cluster cluster = two_nodes();
  cluster.machine->device = MachineDevice::cpu;
  return cluster;
}

TEST(ClusterDevice, IsCudaByDefaultAndCpuWithoutADescription) {
  EXPECT_EQ(device_of(two_nodes()), device::DeviceKind::cuda);
  EXPECT_EQ(device_of(of_cpus()), device::DeviceKind::cpu);
  EXPECT_EQ(device_of(default_cluster(1, 2)), device::DeviceKind::cpu);
}

TEST(ClusterDevice, ReplacesTheDefaultOfTheRecipe) {
  const std::string recipe = "model: {vocab: 64}\n";
  EXPECT_EQ(result_of(two_nodes(), recipe).device, "cuda");
  EXPECT_EQ(result_of(of_cpus(), recipe).device, "cpu");
  EXPECT_EQ(result_of(two_nodes(), recipe).warning, "");
}

TEST(ClusterDevice, DoesNotReplaceTheDeviceThatTheRecipeSets) {
  const Result other = result_of(two_nodes(), "model: {vocab: 64}\ndevice: cpu\n");
  EXPECT_EQ(other.device, "cpu");
  EXPECT_EQ(
      other.warning,
      "warning: r.yaml:2: device is cpu, but the ranks of c.yaml compute on cuda (machine.device). The prediction "
      "is for cpu; to predict for the cluster's device, set device=cuda");
  const Result same = result_of(two_nodes(), "device: cuda\n");
  EXPECT_EQ(same.device, "cuda");
  EXPECT_EQ(same.warning, "");
}

}  // namespace
}  // namespace hexad::tests
