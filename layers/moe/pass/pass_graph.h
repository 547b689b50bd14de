// A pass as a task graph.
#pragma once

#include "layers/moe/pass/pass.h"
#include "layers/moe/pass/pass_buffers.h"
#include "layers/moe/pass/pass_work.h"

namespace hexad::moe {

/// The graph of `pass`, whose tasks have `work` done in `buffers`; all three outlive it, and it has the buffers to
/// itself. A function of the pass and the plan's counts alone: which rows are whose is read by the tasks. Insertion
/// order is pass.order; of chunks that are computed together S0 S1 ... C R0 R1 ... W. Throws Error(usage) when the
/// order is illegal.
schedule::TaskGraph make_pass_graph(const MoePass& pass, PassWork& work, PassBuffers& buffers);

}  // namespace hexad::moe
