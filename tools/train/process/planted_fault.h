// Deliberate faults, for tests: HEXAD_FAULT=kind@rank,step,point. Faults in weights and gradients are in
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

/// Returns the fault in HEXAD_FAULT; none if the variable is unset or empty. Throws Error(usage) if its value is
/// invalid.
std::optional<Fault> fault_from_environment();
/// Returns the fault to inject before `step` on `rank`; none if there is no such fault. The `point` of this fault is
/// "step" or empty.
std::optional<Fault> fault_of_step(int rank, int64_t step);

/// Plants `kill` (SIGKILL to this process), `abort`, `segv` or `hang` (waits forever). Called before each step.
void inject_fault(int rank, int64_t step);

/// Plants `slow@rank,step,MILLISECONDS`: from step `step` on, each step of this rank takes MILLISECONDS longer. Records
/// the delay in `spans`.
void inject_slowness(int rank, int64_t step, device::SpanLog& spans);

/// Plants faults in file operations (calls of FileWork::moved()). N is a value of FileWork::State::moves, which also
/// counts the beginnings of phases.
/// - `slow_files@rank,N,MILLISECONDS`: from N on, each operation takes MILLISECONDS longer.
/// - `stuck_files@rank,N`: the first operation from N on never ends.
void inject_file_fault(int rank, const base::FileWork& work);

/// Throws Error(usage) if HEXAD_FAULT is set to a fault of another kind than `gradient`, or to a fault without effect
/// in the run. The run has the parameters `tensors`, `ranks` ranks and `steps` steps. Used by commands that plant only
/// gradient faults.
void check_gradient_fault(const std::vector<std::string>& tensors, int ranks, int64_t steps);

/// Returns the hook that plants faults in saves; empty if HEXAD_FAULT requests none for `rank`. POINT names a file
/// operation of a save.
/// - `kill`, `abort`, `segv` and `hang@rank,step,POINT` act at POINT, in any step.
/// - `full@rank,step,POINT` makes the operation at POINT fail as on a full disk.
io::FaultHook save_fault_from_environment(int rank);

}  // namespace hexad::train
