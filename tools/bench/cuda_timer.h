// Times of kernels on the card, measured with the card's own clock.
#pragma once

#include <fstream>
#include <functional>
#include <regex>
#include <string>

#include "framework/kernels/kernel_table.h"

namespace hexad::bench {

using base::Dtype;
using base::Shape;
using device::Stream;
using tensor::Tensor;

/// Minimum work of a call: floating-point operations of a product, and bytes to and from memory. If a value is zero,
/// the line omits its rate.
struct Work {
  double operations = 0;
  double bytes = 0;
};

/// Runs kernels and prints a line for each: median microseconds, TFLOP/s, GB/s, and the ratio of GB/s to the card's
/// copy rate. The copy rate counts bytes read and written, and is measured first.
class CudaTimer {
 public:
  /// Makes a timer. `only` is a regular expression that selects lines by name. Writes a JSON object for each printed
  /// line to `json_file` if this name is not empty. Throws Error(resource) if the file cannot be written.
  CudaTimer(device::DeviceContext& card, const std::string& only, const std::string& json_file);

  /// Function that calls measure() one or more times. Only the last measurement counts.
  using Around = std::function<void(const std::function<void()>& measure)>;

  /// Times a kernel if `only` matches `name`; otherwise does nothing. `call` launches the kernel on the given stream.
  /// `around` may call measure() while other work runs. If an exception is thrown, prints its message and counts the
  /// failure.
  void line(
      const std::string& name, const Work& work, const std::function<void(Stream&)>& call,
      const Around& around = [](const auto& measure) { measure(); });
  /// Runs work that later lines need, without timing it. Handles failures like line().
  void prepare(const std::string& name, const std::function<void(Stream&)>& call);
  int failures() const { return failures_; }

  /// Returns a tensor of standard normal values times `scale`. The values repeat after 2^20 elements.
  Tensor normal(Shape shape, Dtype dtype, double scale = 1);
  Tensor empty(Shape shape, Dtype dtype) { return Tensor::empty(shape, dtype, card_); }
  template <class T>
  Tensor values(const std::vector<T>& v, Shape shape) {
    return Tensor::from<T>(v, shape, card_);
  }

 private:
  bool succeeds(const std::string& name, const std::function<void()>& work);
  double median_seconds(const std::function<void(Stream&)>& call);

  device::DeviceContext& card_;
  std::regex only_;
  std::ofstream json_;
  Tensor flood_;  // overwritten between calls, so that no call finds its operands in the cache
  double copy_rate_ = 0;
  int failures_ = 0;
};

}  // namespace hexad::bench
