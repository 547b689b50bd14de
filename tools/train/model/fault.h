// Deliberate failures, for tests: HEXAD_FAULT=kind@rank,step,point.
#pragma once

#include <string>
#include <vector>

#include "framework/base/file_work.h"
#include "framework/io/fault.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

/// Kinds: `kill` (SIGKILL to oneself), `abort`, `segv`, `hang` (for ever), `nan` (one weight becomes NaN), `flip` (one
/// bit of a weight changes), `ulp` (the last bit of every weight of the first parameter changes). Called before each
/// step; `point` must be "step" or empty. Does nothing without HEXAD_FAULT; throws Error(usage) when it cannot be read.
void inject_fault(int rank, int64_t step, ModelInstance& instance);

/// `slow@rank,step,MILLISECONDS`: from that step on, that rank needs so much longer for each; `spans` shows it.
void inject_slowness(int rank, int64_t step, device::SpanLog& spans);

/// `slow_files@rank,N,MILLISECONDS`: from the N-th move of its file work on, each takes so much longer;
/// `stuck_files@rank,N`: the N-th move never ends.
void inject_file_fault(int rank, const base::FileWork& work);

/// `gradient@rank,step,NAME`: from that rank and that step on, the reduced gradients of parameters whose names contain
/// NAME are multiplied by parallel.ep, as trainers have really done; `hexad verify` then shows what it does about it.
/// Called before they are used.
void inject_gradient_fault(int rank, int64_t step, ModelInstance& instance);

/// For commands that plant nothing else: throws Error(usage) when HEXAD_FAULT is set and would change nothing, being no
/// gradient fault or naming none of `tensors`, of `ranks` ranks or of `steps` steps.
void check_gradient_fault(const std::vector<std::string>& tensors, int ranks, int64_t steps);

/// For saves: `kill`, `abort`, `segv` and `hang@rank,step,POINT` do so at the file boundary POINT, whatever the step;
/// `full@rank,step,POINT` fails there as a full disk does.
io::FaultHook save_fault_from_environment(int rank);

}  // namespace hexad::train
