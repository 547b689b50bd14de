// Limit on the share of a device that computation uses while communication runs concurrently.
#pragma once

namespace hexad::kernels {

/// Limits the kernels that this thread calls during the lifetime of this object. On the CPU, they use at most `share`
/// of the thread's kernel threads, but at least one. On a card, the limit applies to products with cuBLASLt or CUTLASS
/// and to the cross-entropy kernel. They use at most `share` of the multiprocessors, but at least two (EPS-MoE, section
/// 4.4). The remaining threads or multiprocessors are free for communication. Only the results of products with
/// cuBLASLt may depend on the limit: cuBLASLt may choose another kernel, which sums in another order.
class ComputeShare {
 public:
  /// Sets the limit. `share` must be in (0, 1]. If this thread already has a limit, `share` is a fraction of that
  /// limit.
  explicit ComputeShare(double share);
  ~ComputeShare();
  ComputeShare(const ComputeShare&) = delete;
  ComputeShare& operator=(const ComputeShare&) = delete;

 private:
  int threads_before_;
  double share_before_;
};

/// Returns the share that kernels called from this thread may use; 1 if there is no limit.
double compute_share();

/// Returns the number of multiprocessors, out of `multiprocessors`, that a product may use if its share is `share`. The
/// result is even and at least two, because thread blocks run in pairs.
int capped_multiprocessors(int multiprocessors, double share);

}  // namespace hexad::kernels
