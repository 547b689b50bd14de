// A cap on what computation takes of a device while communication runs beside it.
#pragma once

namespace hexad::kernels {

/// As long as it lives, kernels that this thread calls use at most `share` of the threads they might, at least one: the
/// rest is left to communication (EPS-MoE, section 4.4, which caps the streaming multiprocessors of products instead).
/// Results do not depend on it.
class ComputeShare {
 public:
  /// `share` in (0, 1].
  explicit ComputeShare(double share);
  ~ComputeShare();
  ComputeShare(const ComputeShare&) = delete;
  ComputeShare& operator=(const ComputeShare&) = delete;

 private:
  int before_;
};

}  // namespace hexad::kernels
