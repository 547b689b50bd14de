#include "tools/plan/machine_description.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "framework/base/error.h"
#include "tests/telemetry/temporary_folder.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {
namespace {

using telemetry::TemporaryFolder;

const std::string text = R"(machine:
  name: test
  nodes: 4
  ranks_per_node: 8
  domain: 16
  memory: 80GB
  topology: {rails: 8, switch_radix: 64, oversubscription: 1}
  peak: {bf16: 989e12, f32: 67e12}
  sms: 132
  dense: {efficiency: [[64, 0.2], [512, 0.6], [4096, 0.7]], half_width: 32}
  memory_bandwidth: 3.35e12
  memory_efficiency: [[1e6, 0.1], [1e8, 0.8]]
  host: {to_host: 43e9, to_device: 55e9, latency: 1e-5}
  inside: {bandwidth: 450e9, latency: 3e-6, efficiency: 0.8}
  network: {bandwidth: 50e9, latency: 14e-6, efficiency: [[1e6, 0.3], [1e8, 0.9]]}
  contention: {communication_sms: 20, collective_beside_product: 0.9}
)";

Cluster load_text(const std::string& yaml) {
  const TemporaryFolder folder;
  telemetry::write_text(folder / "c.yaml", yaml);
  return load_cluster((folder / "c.yaml").string());
}

// Replaces `was` by `is` in `changed`, and loads the result. Returns the error message without the temporary folder, or
// "accepted" if there is no error.
std::string refusal(const std::string& was, const std::string& is, std::string changed = text) {
  const size_t at = changed.find(was);
  if (at == changed.npos) return "the test's own text has no " + was;
  changed.replace(at, was.size(), is);
  try {
    load_text(changed);
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    const std::string message = e.what();
    return message.substr(message.find("c.yaml"));
  }
  return "accepted";
}

TEST(Machine, ReadsBackAsWritten) {
  const Cluster cluster = load_text(text);
  ASSERT_TRUE(cluster.machine);
  EXPECT_EQ(cluster.machine->domain, 16);
  EXPECT_EQ(int64_t{cluster.machine->memory}, 80'000'000'000);
  EXPECT_EQ(cluster.machine->topology.switch_radix, 64);
  EXPECT_EQ(cluster.machine->peak.f32, 67e12);
  EXPECT_FALSE(cluster.machine->peak.f64);
  EXPECT_FALSE(cluster.machine->grouped);
  const std::string written = to_yaml(cluster);
  EXPECT_EQ(to_yaml(load_text(written)), written);
}

TEST(Machine, IsNotMentionedInAProfile) {
  EXPECT_EQ(to_yaml(default_cluster(1, 2)).find("machine"), std::string::npos);
}

TEST(Machine, BadFilesAreRefusedWithTheLine) {
  struct Case {
    std::string was, is, message;
  };
  const Case cases[] = {
      {"nodes: 4", "nodes: 0", "c.yaml:3: machine.nodes (0) must be between 1 and 1048576"},
      {"  sms: 132\n", "", "c.yaml:1: machine.sms is not set; it must be between 1 and 16384"},
      {"domain: 16", "device: gpu", "c.yaml:5: machine.device (gpu) must be one of cuda, cpu"},
      {"domain: 16", "domain: 4",
       "c.yaml:5: machine.domain (4) must be at least machine.ranks_per_node (8): the ranks of a node are in one "
       "domain; nearest: 8"},
      {"domain: 16", "domain: 12",
       "c.yaml:5: machine.domain (12) must be divisible by machine.ranks_per_node (8); nearest: 8, 16"},
      {"domain: 16", "domain: 64",
       "c.yaml:5: machine.domain (64) must be at most machine.nodes x machine.ranks_per_node (32); nearest: 32"},
      {"sms: 132", "sms: 132000", "c.yaml:9: machine.sms (132000) must be between 1 and 16384"},
      {"memory: 80GB", "memory: 80",
       "c.yaml:6: machine.memory (80) must be at least 1048576 bytes (1 MiB); nearest: 1MiB; if the value is in GB, "
       "write 80GB"},
      {"memory: 80GB", "memory: 81559",
       "c.yaml:6: machine.memory (81559) must be at least 1048576 bytes (1 MiB); nearest: 1MiB; if the value is in "
       "MiB, write 81559MiB"},
      {"memory: 80GB", "memory: 80GB\n  host_memory: 256",
       "c.yaml:7: machine.host_memory (256) must be at least 1048576 bytes (1 MiB); nearest: 1MiB; if the value is in "
       "GB, write 256GB"},
      {"memory: 80GB", "memory: 80G", "c.yaml:6: machine.memory (80G) must be a number of bytes"},
      {"rails: 8", "rails: 16",
       "c.yaml:7: machine.topology.rails (16) must be at most machine.ranks_per_node (8); count several adapters "
       "of a rank as one, and set machine.network.bandwidth to the sum of their bandwidths; nearest: 8"},
      {"switch_radix: 64", "switch_radix: 63",
       "c.yaml:7: machine.topology.switch_radix (63) must be divisible by 2; nearest: 62, 64"},
      {"bf16: 989e12", "bf16: 989",
       "c.yaml:8: machine.peak.bf16 (989) must be between 1e9 and 1e17 FLOP/s (989 TFLOP/s is 989e12); nearest: 1e9; "
       "if the value is in TFLOP/s, write 989e12"},
      {"peak: {bf16: 989e12, f32: 67e12}", "peak: {}",
       "c.yaml:8: machine.peak must have at least one of bf16, f32, f64, such as peak: {bf16: 989e12} for an H100"},
      {"efficiency: [[64, 0.2], [512, 0.6], [4096, 0.7]], ", "",
       "c.yaml:10: machine.dense.efficiency is not set; it must be greater than 0"},
      {"[4096, 0.7]", "[4096, 0.5]",
       "c.yaml:10: machine.dense.efficiency.2.1 (0.5) must not fall: the previous point has 0.6 at 512 rows; nearest: "
       "0.6"},
      {"[64, 0.2]", "[64, 0.05]",
       "c.yaml:10: machine.dense.efficiency.1.1 (0.6) must not rise faster than the rows, because more work would then "
       "take less time; expected at most 0.4 at 512 rows, because the previous point has 0.05 at 64; nearest: 0.4"},
      {"half_width: 32", "half_widht: 32",
       "c.yaml:10: machine.dense.half_widht is not a key; did you mean half_width?"},
      {"memory_bandwidth: 3.35e12", "memory_bandwidth: 268e14", "must be between 1e6 and 1e14 bytes/s"},
      {"[1e8, 0.8]", "[1e8, 1.5]", "c.yaml:12: machine.memory_efficiency.1.1 (1.5) must be at most 1; nearest: 1"},
      {"[1e6, 0.1], [1e8, 0.8]", "[1e6, 10], [1e8, 80]",
       "c.yaml:12: machine.memory_efficiency.1.1 (80) must be at most 1; nearest: 1; if the value is in percent, "
       "write 0.8"},
      {"product: 0.9", "product: 90",
       "c.yaml:16: machine.contention.collective_beside_product (90) must be at most 1; nearest: 1; if the value is in "
       "percent, write 0.9"},
      {"sms: 132", "sustained: 93\n  sms: 132",
       "c.yaml:9: machine.sustained (93) must be at most 1; nearest: 1; if the value is in percent, write 0.93"},
      {"sms: 132", "launch: 1.5\n  sms: 132",
       "c.yaml:9: machine.launch (1.5) must be at most 0.0001 seconds (5 us are 5e-6); nearest: 0.0001; if the value "
       "is "
       "in microseconds, write 1.5e-6"},
      {"sms: 132", "launch: 0.0015\n  sms: 132",
       "c.yaml:9: machine.launch (0.0015) must be at most 0.0001 seconds (5 us are 5e-6); nearest: 0.0001; if the "
       "value "
       "is in milliseconds, write 0.0015e-3"},
      {"sms: 132", "operation: 4\n  sms: 132",
       "c.yaml:9: machine.operation (4) must be at most 0.001 seconds (5 us are 5e-6); nearest: 0.001; if the value is "
       "in microseconds, write 4e-6"},
      {"to_host: 43e9", "to_host: 43", "c.yaml:13: machine.host.to_host (43) must be between 1e6 and 1e14 bytes/s"},
      {"bandwidth: 450e9", "bandwidth: 450",
       "c.yaml:14: machine.inside.bandwidth (450) must be between 1e6 and 1e14 bytes/s (a link of 400 Gb/s carries "
       "50e9); nearest: 1e6; if the value is in GB/s, write 450e9"},
      {"bandwidth: 450e9", "bandwidth: 450e7",
       "must be at most 1.8e+10, so that a rank's share of the network adapters is at most 4 times "
       "machine.inside.bandwidth (4.5e+09); nearest: 1.8e+10; both are in bytes/s"},
      {"efficiency: 0.8", "efficiency: 1.2",
       "c.yaml:14: machine.inside.efficiency (1.2) must be at most 1; nearest: 1"},
      {"latency: 3e-6", "latency: 3",
       "c.yaml:14: machine.inside.latency (3) must be at most 0.001 seconds (5 us are 5e-6); nearest: 0.001; if the "
       "value is in microseconds, write 3e-6"},
      {"latency: 14e-6", "latency: 14",
       "c.yaml:15: machine.network.latency (14) must be at most 0.01 seconds (5 us are 5e-6); nearest: 0.01; if the "
       "value is in microseconds, write 14e-6"},
      {"  inside: {bandwidth: 450e9, latency: 3e-6, efficiency: 0.8}\n", "",
       "c.yaml:1: machine.inside (none by default) must be given, because the 16 ranks of a domain exchange data "
       "over this link, such as inside: {bandwidth: 450e9, latency: 3.4e-6} for NVLink of an H100"},
      {"  network: {bandwidth: 50e9, latency: 14e-6, efficiency: [[1e6, 0.3], [1e8, 0.9]]}\n", "",
       "c.yaml:1: machine.network (none by default) must be given, because the 32 ranks are in domains of 16 and "
       "exchange data between domains, such as network: {bandwidth: 50e9, latency: 14e-6} for 400 Gb/s a rank"},
      {"communication_sms: 20", "communication_sms: 132",
       "c.yaml:16: machine.contention.communication_sms (132) must be less than machine.sms (132); nearest: 131"},
  };
  for (const Case& c : cases) {
    const std::string message = refusal(c.was, c.is);
    EXPECT_NE(message.find(c.message), message.npos)
        << c.is << "\n  expected " << c.message << "\n  but was  " << message;
  }
}

TEST(Machine, RanksMayShareAFastNetworkAdapter) {
  EXPECT_NE(refusal("bandwidth: 50e9", "bandwidth: 2e12"), "accepted");
  EXPECT_EQ(
      refusal("bandwidth: 50e9", "bandwidth: 2e12", std::string(text).replace(text.find("rails: 8"), 8, "rails: 4")),
      "accepted");
}

TEST(Machine, ALinkInTheWrongUnitIsTheOnlyProblem) {
  EXPECT_EQ(refusal("bandwidth: 450e9", "bandwidth: 450").find("machine.network"), std::string::npos)
      << "the network is not judged by a link whose bandwidth is wrong";
}

TEST(Machine, AllProblemsAreListed) {
  const std::string message = refusal("domain: 16\n  memory: 80GB", "domain: 4\n  memory: 1");
  EXPECT_NE(message.find("c.yaml:5: machine.domain"), message.npos) << message;
  EXPECT_NE(message.find("c.yaml:6: machine.memory"), message.npos) << message;
}

TEST(Machine, MustHaveTheSizeOfItsMeasurements) {
  for (const char* curve :
       {"copies: [{kind: copy, ", "kernels: [{class: norm, ", "attention: [{heads: 8, head_size: 64, "}) {
    const std::string both =
        text + "measured: {nodes: 2, ranks_per_node: 8}\n" + curve + "points: [[64, 1e-5], [128, 2e-5]]}]\n";
    EXPECT_EQ(refusal("measured: {nodes: 2", "measured: {nodes: 4", both), "accepted");
    EXPECT_EQ(refusal("name: test", "name: other", both),
              "c.yaml:3: machine.nodes (4) must be equal to measured.nodes (2); nearest: 2");
  }
}

TEST(CompleteMachine, NamesEachAssumptionOnce) {
  Machine machine = *load_text(text).machine;
  const auto given = complete(machine).assumptions;
  EXPECT_EQ(std::set(given.begin(), given.end()).size(), given.size());
  const auto names = [&](const std::string& key) {
    int found = 0;
    for (const std::string& a : complete(machine).assumptions) found += a.starts_with(key + ": ");
    return found;
  };
  EXPECT_EQ(names("dense"), 0) << "the file gives this value";
  EXPECT_EQ(names("grouped"), 1);
  EXPECT_EQ(names("attention"), 1);
  EXPECT_EQ(names("network.efficiency"), 0) << "the file gives this value";
  machine.network->efficiency.reset();
  EXPECT_EQ(names("network.efficiency"), 1);
  EXPECT_EQ(names("host_memory"), 1);
  machine.host_memory = config::ByteSize(1 << 30);
  EXPECT_EQ(names("host_memory"), 0) << "the file gives this value";
}

TEST(CompleteMachine, HasTheHostTimeOfItsDevice) {
  Machine machine = *load_text(text).machine;
  EXPECT_EQ(complete(machine).machine.operation, 3.8e-6) << "a GPU waits until the host has issued an operation";
  machine.device = MachineDevice::cpu;
  EXPECT_EQ(complete(machine).machine.operation, 2.1e-6) << "a CPU computes in this time";
  machine.operation = 1e-5;
  EXPECT_EQ(complete(machine).machine.operation, 1e-5) << "the file gives this value";
}

TEST(CompleteMachine, LeavesNoAssumption) {
  Machine machine = *load_text(text).machine;
  machine.domain.reset(), machine.host_memory = config::ByteSize(1 << 30);
  const Machine whole = complete(machine).machine;
  EXPECT_EQ(whole.domain, 8);
  EXPECT_TRUE(complete(whole).assumptions.empty());
}

TEST(CompleteMachine, UsesTheCurvesOfTheShippedH100) {
  const Machine h100 = *load_cluster(HEXAD_SOURCE_DIR "/recipes/clusters/h100-dgx.yaml").machine;
  EXPECT_TRUE(complete(h100).assumptions.empty());
  Machine bare = h100;
  bare.sustained.reset(), bare.dense.reset(), bare.grouped.reset(), bare.attention.reset();
  bare.memory_efficiency.reset(), bare.launch.reset(), bare.operation.reset(), bare.collective_start.reset(),
      bare.contention.reset();
  bare.inside->efficiency.reset(), bare.network->efficiency.reset();
  Cluster given, assumed;
  given.machine = complete(h100).machine, assumed.machine = complete(bare).machine;
  EXPECT_EQ(to_yaml(assumed), to_yaml(given));
}

TEST(ClusterRecipes, DescribeTheirMachinesAndSources) {
  int described = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HEXAD_SOURCE_DIR "/recipes/clusters")) {
    const Cluster cluster = load_cluster(entry.path().string());
    if (!cluster.machine) continue;
    EXPECT_FALSE(cluster.machine->name.empty()) << entry.path();
    EXPECT_FALSE(cluster.machine->source.empty()) << entry.path();
    EXPECT_TRUE(cluster.machine->peak.bf16) << entry.path();
    ++described;
  }
  EXPECT_EQ(described, 11);
}

}  // namespace
}  // namespace hexad::plan
