// Limits the share of a device that computation may use while communication runs beside it.
#pragma once

namespace hexad::kernels {

/// Limits this thread's kernels during its lifetime to at most `share` of the threads, at least one. Limits products on
/// a card to the same share of its multiprocessors (EPS-MoE, section 4.4). The rest is left to communication. Results
/// do not depend on the limit, except for dense products on a card: cuBLASLt may choose another kernel, which may add
/// in another order.
class ComputeShare {
 public:
  /// Sets the limit. `share` is in (0, 1].
  explicit ComputeShare(double share);
  ~ComputeShare();
  ComputeShare(const ComputeShare&) = delete;
  ComputeShare& operator=(const ComputeShare&) = delete;

 private:
  int threads_before_;
  double share_before_;
};

/// Returns the share that this thread's kernels may use; 1 without a limit.
double compute_share();

/// Returns the number of `multiprocessors` that a product may use: even and at least two, because its blocks come in
/// pairs.
int capped_multiprocessors(int multiprocessors, double share);

}  // namespace hexad::kernels
