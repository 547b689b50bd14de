// Speed of other libraries on the matrices of `hexad bench gemm`.
#pragma once

#include <string>
#include <vector>

#include "framework/kernels/gemm_rate.h"

namespace hexad::app {

struct GemmPeer {
  std::string name;         // "Eigen"
  std::string description;  // version and instruction sets, or the reason why there is no rate
  double flops_per_second;  // FLOP/s; 0: the library has no such product here
};

/// Measures oneDNN and Eigen, each for about `seconds` on the threads of the kernels. `context` must be that of the
/// CPU.
std::vector<GemmPeer> measure_gemm_peers(device::DeviceContext& context, base::Dtype dtype, double seconds);

}  // namespace hexad::app
