#include "layers/dense/rotary_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hexad::layers {
namespace {

double frequency(int64_t i, int64_t head_size, double theta, const YarnConfig& yarn) {
  const double base = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
  if (yarn.factor == 1) return base;
  // Returns the dimension whose angle makes `turns` full turns over the original context.
  const auto dimension_of = [&](double turns) {
    return static_cast<double>(head_size) *
           std::log(static_cast<double>(yarn.original_context) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  const double low = std::max(0.0, std::floor(dimension_of(yarn.beta_fast)));
  const double high = std::min(static_cast<double>(head_size - 1), std::ceil(dimension_of(yarn.beta_slow)));
  const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(high - low, 1e-3), 0.0, 1.0);
  return base / yarn.factor * ramp + base * (1 - ramp);
}

}  // namespace

RotaryTable::RotaryTable(int64_t positions, int64_t head_size, double theta, const YarnConfig& yarn, base::Dtype dtype,
                         device::Device device) {
  base::require(head_size % 2 == 0, "[rotary] head size ", head_size, " is odd, expected an even size");
  const int64_t half = head_size / 2;
  cosine = tensor::Tensor::empty({positions, half}, dtype, device, device::Category::parameter);
  sine = tensor::Tensor::like(cosine, device::Category::parameter);
  if (!device.has_memory()) return;
  const double magnitude = yarn.factor == 1 ? 1.0 : 0.1 * std::log(yarn.factor) + 1.0;
  base::with_dtype<float, double>("rotary_table", dtype, [&]<class T>() {
    std::vector<T> c(positions * half), s(c.size());
    for (int64_t i = 0; i < half; ++i) {
      const double f = frequency(i, head_size, theta, yarn);
      for (int64_t p = 0; p < positions; ++p) {
        const size_t at = p * half + i;
        c[at] = static_cast<T>(magnitude * std::cos(static_cast<double>(p) * f));
        s[at] = static_cast<T>(magnitude * std::sin(static_cast<double>(p) * f));
      }
    }
    cosine.upload(c.data());
    sine.upload(s.data());
  });
}

}  // namespace hexad::layers
