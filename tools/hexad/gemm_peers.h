// Measures matrix products of other libraries, for `hexad bench gemm`.
#pragma once

#include <string>
#include <vector>

#include "framework/kernels/gemm_rate.h"

namespace hexad::app {

struct GemmPeer {
  std::string name;         // "Eigen"
  std::string description;  // version and instruction sets, or the reason why the library was not measured
  double flops_per_second;  // 0: the library was not measured
};

/// Measures oneDNN and Eigen, each for about `seconds`, with the kernels' number of threads. `context` must be a CPU
/// context.
std::vector<GemmPeer> measure_gemm_peers(device::DeviceContext& context, base::Dtype dtype, double seconds);

}  // namespace hexad::app
