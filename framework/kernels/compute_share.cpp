#include "framework/kernels/compute_share.h"

#include <algorithm>

#include "framework/kernels/cpu/parallel.h"

namespace hexad::kernels {

ComputeShare::ComputeShare(double share) : before_(cpu::thread_count()) {
  cpu::set_thread_count(std::max(1, static_cast<int>(share * before_ + 1e-9)));
}

ComputeShare::~ComputeShare() { cpu::set_thread_count(before_); }

}  // namespace hexad::kernels
