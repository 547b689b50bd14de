// Description of a cluster of two nodes with eight H100 each.
#pragma once

#include "tools/plan/cluster.h"

namespace hexad::tests {

inline plan::Cluster two_nodes() {
  plan::Machine m;
  m.name = "two nodes";
  m.nodes = 2, m.ranks_per_node = 8;
  m.memory = config::ByteSize(80'000'000'000), m.host_memory = config::ByteSize(256'000'000'000);
  m.peak.bf16 = 989e12, m.peak.f32 = 67e12;
  m.sms = 132;
  m.memory_bandwidth = 3.35e12;
  m.inside = plan::MachineLink{450e9, 3.4e-6, {}};
  m.network = plan::MachineLink{50e9, 14e-6, {}};
  plan::Cluster cluster;
  cluster.machine = m;
  return cluster;
}

}  // namespace hexad::tests
