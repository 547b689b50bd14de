#include "tools/plan/papers/parameter_memory.h"

#include "framework/base/error.h"

namespace hexad::plan {

ParameterBytes kept_bytes(const ParameterBytes& whole, int64_t zero, double replicas) {
  base::require(0 <= zero && zero <= 3 && replicas >= 1, "[memory] the level is ZeRO-", zero,
                " and the number of replicas is ", replicas, "; expected ZeRO-0 to ZeRO-3 and at least 1 replica");
  const auto from = [&](int64_t level, double bytes) { return zero >= level ? bytes / replicas : bytes; };
  return {from(3, whole.weights), from(2, whole.gradients), from(1, whole.optimizer)};
}

}  // namespace hexad::plan
