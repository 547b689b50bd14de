// What every pass of an MoE layer has in common.
#pragma once

#include <string>
#include <vector>

#include "framework/schedule/runner.h"
#include "layers/moe/schedule/issue_order.h"
#include "layers/moe/schedule/moe_schedule.h"
#include "parallel/ep/expert_groups.h"

namespace hexad::moe {

/// How the tokens of a layer reach its experts.
struct ExpertRoute {
  MoeSchedule schedule;
  IssueOrder order;  // that schedule.order names
  int64_t experts;   // of all ranks
  ep::ExpertGroups groups;
  const comm::ProcessGroup* tensor;                    // ranks that may hold the same tokens
  std::vector<int> tensor_ep_ranks;                    // place of each of them among the ranks of its ep group
  std::string name;                                    // of the layer, for its runner
  schedule::GraphRunner* runner = nullptr;             // of every pass; null: it is executed
  const kernels::WireKernels* wire_kernels = nullptr;  // of every pass; null: the device's

  /// How often each token is computed when each of the tensor ranks holds all of them.
  int copies() const;
};

}  // namespace hexad::moe
