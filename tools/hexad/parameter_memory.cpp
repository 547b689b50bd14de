#include "tools/hexad/parameter_memory.h"

#include "framework/base/error.h"

namespace hexad::app {

ParameterBytes kept_of(const ParameterBytes& whole, int64_t zero, double replicas) {
  base::require(0 <= zero && zero <= 3 && replicas >= 1, "[memory] ZeRO-", zero, " over ", replicas, " replicas");
  const auto from = [&](int64_t level, double bytes) { return zero >= level ? bytes / replicas : bytes; };
  return {from(3, whole.weights), from(2, whole.gradients), from(1, whole.optimizer)};
}

double monta_parameter_bytes(double p1, double p2, const MontaLayout& l, int64_t zero) {
  constexpr ParameterBytes bf16_with_adam{.weights = 2, .gradients = 2, .optimizer = 12};
  return kept_of(bf16_with_adam, zero, l.replicas).total() * p1 / (l.pipeline * l.tensor) +
         kept_of(bf16_with_adam, zero, l.expert_replicas).total() * p2 / (l.pipeline * l.tensor * l.expert);
}

}  // namespace hexad::app
