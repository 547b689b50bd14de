// A cap on what computation takes of a device while communication runs beside it.
#pragma once

namespace hexad::kernels {

/// While it lives, kernels that this thread calls use at most `share` of the threads they might (at least one), and
/// products on a card at most that share of its multiprocessors (EPS-MoE, section 4.4): the rest is left to
/// communication. Results do not depend on it.
class ComputeShare {
 public:
  /// `share` in (0, 1].
  explicit ComputeShare(double share);
  ~ComputeShare();
  ComputeShare(const ComputeShare&) = delete;
  ComputeShare& operator=(const ComputeShare&) = delete;

 private:
  int threads_before_;
  double share_before_;
};

/// The share that this thread's kernels may use; 1 where nobody caps it.
double compute_share();

/// Number of `multiprocessors` that a product may use: even and at least two, because its blocks come in pairs.
int capped_multiprocessors(int multiprocessors, double share);

}  // namespace hexad::kernels
