// Check that ranks with the same weights hold the same bits.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/comm/process_group.h"

namespace hexad::train {

/// Compares hashes of each parameter's bytes among the ranks that hold the same piece of the parameter. Collective over
/// all ranks. Throws Error(numeric), the same on all ranks, with the parameter and the ranks that differ.
void check_replicas(const autograd::ParameterSet& parameters, const comm::ProcessGroup& world);

}  // namespace hexad::train
