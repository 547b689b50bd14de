// Bytes of weights, gradients and optimizer states, by formulas of the ZeRO level and the number of replicas.
#pragma once

#include <cstdint>

namespace hexad::plan {

/// Bytes of one or more parameters.
struct ParameterBytes {
  double weights = 0, gradients = 0, optimizer = 0;
  double total() const { return weights + gradients + optimizer; }
};

/// Returns the bytes that a rank keeps of a parameter that `replicas` ranks hold. `whole` has the bytes of an undivided
/// parameter. ZeRO-1 divides optimizer states by the number of replicas, ZeRO-2 also gradients, and ZeRO-3 also weights
/// (Rajbhandari et al. 2020). In bf16 with AdamW and f32 gradients, `whole` is 2 + 4 + 12 = 18 bytes. ZeRO-1 keeps 6 +
/// 12/d of these, ZeRO-2 2 + 16/d, ZeRO-3 18/d. With moments in bf16, 8 replaces each 12; with rests of main weights,
/// 10; with both, 6. Gathered weights and gradients in flight are not counted.
ParameterBytes kept_bytes(const ParameterBytes& whole, int64_t zero, double replicas);

}  // namespace hexad::plan
