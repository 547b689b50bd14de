// A check, before anything is allocated, that a job's ranks fit into the memory of the machines that they run on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/world.h"
#include "tools/plan/memory_estimate.h"
#include "tools/train/process/machine_memory.h"

namespace hexad::plan {

/// Largest error of an estimate, as a share of it (docs/reports/memory-estimate.md).
inline constexpr double estimate_error = 0.03;

/// Use that a job makes of the model. A text is generated from one sequence at a time.
enum class ModelUse : uint8_t { training, evaluation, generation };

/// Bytes that a rank's process takes beside tensors: the program, MPI, scratch of kernels.
inline constexpr double process_bytes = 80 << 20;

struct MemoryFit {
  enum class Verdict : uint8_t { fits, tight, too_much, unknown };
  Verdict verdict = Verdict::fits;
  std::string text{};  // for people; empty if it fits
};

/// Limits of one rank: the memory of its host, and of its card if it computes on one.
struct RankMemory {
  std::string host;
  std::vector<train::MemoryPool> pools{}, cards{};  // cards: at most one

  /// Limits of this process as the `place`-th rank of its machine. Throws Error if the recipe's device cannot be had.
  static RankMemory here(device::DeviceKind device, int place);
};

/// Judges a job of `world` ranks whose rank r has `memory_of`(r). The need of ranks that share a pool is added up, and
/// the least that one of them finds available counts. `too_much`: the estimate less its error is above that; `tight`:
/// the estimate and its error are.
MemoryFit memory_fit(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                     const std::function<const RankMemory&(int64_t)>& memory_of, ModelUse use = ModelUse::training);

/// The same for this job, on all ranks alike; rank 0 estimates. Collective. Fits whatever is found if
/// memory.limit_bytes is none.
MemoryFit memory_fit(const train::Recipe& recipe, const train::Extensions& extensions, const comm::World& world,
                     ModelUse use = ModelUse::training);

/// False if this job's ranks do not fit: rank 0 has printed why, and the job ends with exit code 4. Else rank 0 prints
/// a warning where there is one. Collective.
bool fits_in_memory(const train::Recipe& recipe, const train::Extensions& extensions, const comm::World& world,
                    ModelUse use = ModelUse::training);

/// The same for a job of `ranks` ranks on this machine.
MemoryFit memory_fit_on_this_machine(const train::Recipe& recipe, const train::Extensions& extensions, int64_t ranks,
                                     ModelUse use = ModelUse::training);

}  // namespace hexad::plan
