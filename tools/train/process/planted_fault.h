// Deliberate failures, for tests: HEXAD_FAULT=kind@rank,step,point. Faults of weights and gradients are planted by
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

/// Returns the fault in HEXAD_FAULT; none if it is not set. Throws Error(usage) if the variable cannot be read.
std::optional<Fault> fault_from_environment();
/// Returns the fault to inject before `step` on `rank`, if any. Its `point` is "step" or empty.
std::optional<Fault> fault_of_step(int rank, int64_t step);

/// Plants `kill` (SIGKILL to this process), `abort`, `segv` or `hang` (forever). Called before each step.
void inject_fault(int rank, int64_t step);

/// Plants `slow@rank,step,MILLISECONDS`: from that step on, each step of that rank takes MILLISECONDS longer. Records
/// the delay in `spans`.
void inject_slowness(int rank, int64_t step, device::SpanLog& spans);

/// Plants faults of file work. A move is a call of FileWork::moved(). `slow_files@rank,N,MILLISECONDS`: from the N-th
/// move on, each move takes MILLISECONDS longer. `stuck_files@rank,N`: the N-th move never ends.
void inject_file_fault(int rank, const base::FileWork& work);

/// Throws Error(usage) if HEXAD_FAULT is set and would have no effect: its kind is not `gradient`, or no name in
/// `tensors`, none of the `ranks` ranks or none of the `steps` steps matches it. Used by commands that plant only
/// gradient faults.
void check_gradient_fault(const std::vector<std::string>& tensors, int ranks, int64_t steps);

/// Returns the hook that plants faults in saves. `kill`, `abort`, `segv` and `hang@rank,step,POINT` act at the file
/// boundary POINT in any step. `full@rank,step,POINT` makes the file operation at POINT fail as on a full disk.
io::FaultHook save_fault_from_environment(int rank);

}  // namespace hexad::train
