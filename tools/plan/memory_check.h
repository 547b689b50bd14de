// Checks, before any allocation, that a job's ranks fit into the memory of their machines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/world.h"
#include "tools/plan/memory_estimate.h"
#include "tools/train/process/machine_memory.h"

namespace hexad::plan {

/// Largest relative error that tests accept for an estimate, if the other ranks are late. A rank may need less memory
/// if no other rank is late (docs/reports/memory-estimate.md).
inline constexpr double estimate_error = 0.02;

/// Purpose of a job. Generation first computes the tokens of one whole prompt at a time.
enum class ModelUse : uint8_t { training, evaluation, generation };

/// Bytes that a rank's process needs in addition to tensors: the program, MPI, and scratch memory of kernels.
inline constexpr double process_bytes = 80 << 20;

struct MemoryFit {
  enum class Verdict : uint8_t { fits, tight, too_much, unknown };
  Verdict verdict = Verdict::fits;
  std::string text{};  // message for the user; empty if the job fits
};

/// Memory limits of one rank: of its host, and of its card if the rank computes on a GPU.
struct RankMemory {
  std::string host;
  std::vector<train::MemoryPool> pools{}, cards{};  // pools of the host; the memory of the card (at most one entry)

  /// Returns the limits of this process, whose index among the ranks of its machine is `place`. Throws Error if
  /// `device` is not available.
  static RankMemory here(device::DeviceKind device, int place);
};

/// Judges a job of `world` ranks. `memory_of`(r) returns the limits of rank r. The needs of ranks that share a pool are
/// added up. The available memory of a pool is the minimum that its ranks report. `cached_tokens` is the number of
/// tokens whose keys and values generation keeps. Verdict:
/// - `too_much` if the estimate minus its error exceeds the available memory
/// - `tight` if only the estimate plus its error exceeds the available memory; this estimate counts whole blocks and,
///   on a host, process_bytes
/// - `unknown` if the memory of a rank's machine cannot be read, and the verdict is not `too_much`
/// - `fits` otherwise
MemoryFit memory_fit(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                     const std::function<const RankMemory&(int64_t)>& memory_of, ModelUse use = ModelUse::training,
                     int64_t cached_tokens = 0);

/// Judges this job. Rank 0 makes the estimate, and all ranks get the same result. Every job fits if memory.limit_bytes
/// is none. Collective.
MemoryFit memory_fit(const train::Recipe& recipe, const train::Extensions& extensions, const comm::World& world,
                     ModelUse use = ModelUse::training, int64_t cached_tokens = 0);

/// Returns false if the verdict on this job is `too_much`. Rank 0 then prints the reason, and the caller must end the
/// job with exit code 4. Rank 0 prints a warning for the verdicts `tight` and `unknown`. Collective.
bool fits_in_memory(const train::Recipe& recipe, const train::Extensions& extensions, const comm::World& world,
                    ModelUse use = ModelUse::training, int64_t cached_tokens = 0);

/// Checks every stage of training like fits_in_memory(). Messages name the stage. Returns false if any stage does not
/// fit. Collective.
bool stages_fit_in_memory(const train::Recipe& recipe, const train::Extensions& extensions, const comm::World& world);

/// Judges a job of `ranks` ranks on this machine. Every job fits if memory.limit_bytes is none.
MemoryFit memory_fit_on_this_machine(const train::Recipe& recipe, const train::Extensions& extensions, int64_t ranks,
                                     ModelUse use = ModelUse::training);

}  // namespace hexad::plan
