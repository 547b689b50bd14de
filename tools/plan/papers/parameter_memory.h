// Bytes of weights, gradients and optimizer states, computed from the ZeRO level and the number of replicas.
#pragma once

#include <cstdint>

namespace hexad::plan {

/// Bytes of one or more parameters.
struct ParameterBytes {
  double weights = 0, gradients = 0, optimizer = 0;
  double total() const { return weights + gradients + optimizer; }
};

/// Returns the bytes that a rank keeps of a parameter that `replicas` ranks hold. `whole` has the bytes of the
/// undivided parameter. ZeRO-1 divides optimizer states by the number of replicas d, ZeRO-2 also gradients, and ZeRO-3
/// also weights (Rajbhandari et al. 2020). Buffers of gathered weights and of gradients in flight are not counted.
///
/// In bf16 with AdamW and f32 gradients, `whole` is 2 + 4 + 12 = 18 bytes. A rank keeps:
/// - ZeRO-1: 6 + 12/d bytes
/// - ZeRO-2: 2 + 16/d bytes
/// - ZeRO-3: 18/d bytes
///
/// Other formats of the optimizer's states replace the 12 bytes:
/// - moments in bf16: 8 bytes
/// - main weights stored as only the 16 bits that the bf16 weights lack: 10 bytes
/// - both: 6 bytes
ParameterBytes kept_bytes(const ParameterBytes& whole, int64_t zero, double replicas);

}  // namespace hexad::plan
