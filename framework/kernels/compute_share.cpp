#include "framework/kernels/compute_share.h"

#include <algorithm>
#include <utility>

#include "framework/base/thread_share.h"
#include "framework/kernels/cpu/parallel.h"

namespace hexad::kernels {
namespace {

thread_local double share_here = 1;

}  // namespace

ComputeShare::ComputeShare(double share)
    : threads_before_(cpu::thread_count()), share_before_(std::exchange(share_here, share_here * share)) {
  cpu::set_thread_count(base::threads_of_share(threads_before_, share));
}

ComputeShare::~ComputeShare() {
  cpu::set_thread_count(threads_before_);
  share_here = share_before_;
}

double compute_share() { return share_here; }

int capped_multiprocessors(int multiprocessors, double share) {
  return std::max(2, static_cast<int>(share * multiprocessors + 1e-9) / 2 * 2);
}

}  // namespace hexad::kernels
