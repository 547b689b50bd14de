// Sums over the steps of a training run after its warm-up.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tools/gpu/profile/activity.h"
#include "tools/gpu/profile/steps.h"

namespace hexad::gpu_profile {

struct StepTime {
  int64_t total = 0, idle = 0;  // duration and idle time of a step, in ns
};

/// All activities with the same kind and name.
struct Operation {
  Kind kind = Kind::kernel;
  std::string_view name;
  int64_t count = 0, ns = 0, bytes = 0;
};

/// All gaps between two activities with the same pair of names.
struct Place {
  std::string_view before, after;  // names of the activities around the gaps; empty if there is none
  int64_t count = 0, ns = 0;
};

/// Sums (not means) over the steps of `window`. An activity belongs to the step in which it begins.
struct Profile {
  int64_t first_step = 0;  // number of the first counted step in the run, starting at 1
  Interval window;
  std::vector<StepTime> steps;
  std::vector<Operation> operations;  // sorted, the longest first
  std::vector<StreamTime> streams;    // sorted, the busiest first
  std::vector<Gap> gaps;              // sorted, the longest first; a gap points to its activities
  std::vector<Place> places;          // sorted, the longest first

  int64_t idle() const;
  int64_t step_of(const Gap& gap) const;       // number of the gap's step in the run, starting at 1
  int64_t ns_into_step(const Gap& gap) const;  // ns from the start of the step to the start of the gap
};

/// Returns the sums over the steps after the warm-up. A step lasts from the end of the previous step to its own end
/// (step_ends()). The first `skipped` steps, at least one, are the warm-up. Returns nullopt if no step remains.
std::optional<Profile> profile(std::span<const Activity> activities, std::string_view update, int64_t skipped);

}  // namespace hexad::gpu_profile
