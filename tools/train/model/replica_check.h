// Checks that replicas of weights on different ranks are bitwise identical.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/comm/process_group.h"

namespace hexad::train {

/// Compares hashes of each parameter's bytes among the ranks that hold the same piece of the parameter. If pieces
/// differ, all ranks throw the same Error(numeric), which names the parameter and the ranks. Collective over all ranks.
void check_replicas(const autograd::ParameterSet& parameters, const comm::ProcessGroup& world);

}  // namespace hexad::train
