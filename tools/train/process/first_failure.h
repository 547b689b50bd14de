// Makes all ranks throw the failure of one rank.
#pragma once

#include "framework/base/failure.h"
#include "parallel/comm/process_group.h"

namespace hexad::train {

/// Throws the failure of the lowest failed rank on all ranks; does nothing if no rank has failed. All ranks must throw
/// the same error, because the first rank that exits determines the job's exit code. Collective.
void throw_first(const base::Failure& mine, const comm::ProcessGroup& world);

}  // namespace hexad::train
