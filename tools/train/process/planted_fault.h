// Deliberate failures, for tests: HEXAD_FAULT=kind@rank,step,point. Those of weights and gradients are planted by
// tools/train/model/weight_fault.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/file_work.h"
#include "framework/device/span_log.h"
#include "framework/io/write_fault.h"

namespace hexad::train {

struct Fault {
  std::string kind;
  int64_t rank = 0, step = 0;
  std::string point;
};

/// Returns the fault that HEXAD_FAULT asks for; none if it is not set. Throws Error(usage) if it cannot be read.
std::optional<Fault> fault_from_environment();
/// Returns the fault to inject before `step` on `rank`: its `point` is "step" or empty.
std::optional<Fault> fault_of_step(int rank, int64_t step);

/// `kill` (SIGKILL to oneself), `abort`, `segv`, `hang` (for ever). Called before each step.
void inject_fault(int rank, int64_t step);

/// `slow@rank,step,MILLISECONDS`: from that step on, that rank needs so much longer for each; `spans` shows it.
void inject_slowness(int rank, int64_t step, device::SpanLog& spans);

/// `slow_files@rank,N,MILLISECONDS`: from the N-th move of its file work on, each takes so much longer;
/// `stuck_files@rank,N`: the N-th move never ends.
void inject_file_fault(int rank, const base::FileWork& work);

/// For commands that plant nothing else: throws Error(usage) when HEXAD_FAULT is set and would change nothing, being no
/// gradient fault or naming none of `tensors`, of `ranks` ranks or of `steps` steps.
void check_gradient_fault(const std::vector<std::string>& tensors, int ranks, int64_t steps);

/// For saves: `kill`, `abort`, `segv` and `hang@rank,step,POINT` do so at the file boundary POINT, whatever the step;
/// `full@rank,step,POINT` fails there as a full disk does.
io::FaultHook save_fault_from_environment(int rank);

}  // namespace hexad::train
