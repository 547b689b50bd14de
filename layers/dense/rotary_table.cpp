#include "layers/dense/rotary_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hexad::layers {
namespace {

double stretched_by_yarn(double base, int64_t i, int64_t size, double theta, const YarnConfig& yarn) {
  // Returns the index, a real number, of the pair of dimensions whose angle makes `turns` full rotations over the
  // original context.
  const auto dimension_of = [&](double turns) {
    return static_cast<double>(size) *
           std::log(static_cast<double>(yarn.original_context) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  const double fast = dimension_of(yarn.beta_fast), slow = dimension_of(yarn.beta_slow);
  const double low = std::max(0.0, yarn.truncate ? std::floor(fast) : fast);
  const double high = std::min(static_cast<double>(size - 1), yarn.truncate ? std::ceil(slow) : slow);
  const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(high - low, 1e-3), 0.0, 1.0);
  return base / yarn.factor * ramp + base * (1 - ramp);
}

// Compares the number of rotations over the original context with two limits, which may be equal. Returns base /
// s.factor if the number is below low_freq_factor, and `base` if the number is above high_freq_factor. Otherwise,
// interpolates between these two frequencies.
double scaled_as_llama3(double base, const RotaryScalingConfig& s) {
  const double turns = static_cast<double>(s.original_context) * base / (2 * std::numbers::pi);
  if (s.low_freq_factor == s.high_freq_factor) return turns < s.low_freq_factor ? base / s.factor : base;
  const double kept = std::clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
  return base * kept + base / s.factor * (1 - kept);
}

bool is_long(int64_t positions, const RotaryScalingConfig& s) { return positions > s.original_context; }

double frequency(int64_t i, int64_t positions, const RotaryFrequencies& f) {
  const auto pair = static_cast<double>(i), size = static_cast<double>(f.size);
  const double base = std::pow(f.theta, -2.0 * pair / size);
  if (f.yarn.factor != 1) return stretched_by_yarn(base, i, f.size, f.theta, f.yarn);
  switch (f.scaling.kind) {
    case RotaryScaling::linear:
      return base / f.scaling.factor;
    case RotaryScaling::ntk:  // replaces theta by theta factor^(size / (size - 2)); the first frequency is always 1
      return i == 0 ? base : base * std::pow(f.scaling.factor, -2.0 * pair / (size - 2));
    case RotaryScaling::llama3:
      return scaled_as_llama3(base, f.scaling);
    case RotaryScaling::longrope:
      return base / (is_long(positions, f.scaling) ? f.scaling.long_factors : f.scaling.short_factors)[i];
    case RotaryScaling::none:
      break;
  }
  return base;
}

double magnitude_of(int64_t positions, const RotaryFrequencies& f) {
  if (f.scaling.kind != RotaryScaling::longrope) return f.yarn.table_magnitude();
  return is_long(positions, f.scaling) ? f.scaling.long_magnitude : f.scaling.short_magnitude;
}

}  // namespace

RotaryTable::RotaryTable(int64_t positions, const RotaryFrequencies& frequencies, base::Dtype dtype,
                         device::Device device) {
  const int64_t half = frequencies.size / 2;
  base::require(half > 0 && frequencies.size % 2 == 0, "[rotary] the number of dimensions is ", frequencies.size,
                ", expected a positive even number");
  cosine = tensor::Tensor::empty({positions, half}, dtype, device, device::Category::parameter);
  sine = tensor::Tensor::like(cosine, device::Category::parameter);
  if (!device.has_memory()) return;
  const RotaryScalingConfig& scaling = frequencies.scaling;
  const auto factors = std::min(std::ssize(scaling.short_factors), std::ssize(scaling.long_factors));
  base::require(scaling.kind != RotaryScaling::longrope || factors >= half,
                "[rotary] short_factors or long_factors of LongRoPE has ", factors, " numbers; expected at least ",
                half, ", one for each rotated pair of dimensions");
  const double magnitude = magnitude_of(positions, frequencies);
  base::with_dtype<float, double>("rotary_table", dtype, [&]<class T>() {
    std::vector<T> c(positions * half), s(c.size());
    for (int64_t i = 0; i < half; ++i) {
      const double f = frequency(i, positions, frequencies);
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

RotaryTable::RotaryTable(int64_t positions, int64_t size, const TemperatureConfig& temperature, base::Dtype dtype,
                         device::Device device) {
  const int64_t half = size / 2;
  base::require(half > 0 && size % 2 == 0, "[temperature] the size of a head is ", size,
                ", expected a positive even number");
  cosine = tensor::Tensor::empty({positions, half}, dtype, device, device::Category::parameter);
  sine = tensor::Tensor::like(cosine, device::Category::parameter);
  if (!device.has_memory()) return;
  base::with_dtype<float, double>("temperature", dtype, [&]<class T>() {
    std::vector<T> c(positions * half), s(c.size());
    for (int64_t p = 0; p < positions; ++p) {
      const auto steps = static_cast<double>((p + 1) / temperature.floor);
      std::fill_n(c.begin() + p * half, half, static_cast<T>(1 + temperature.scale * std::log1p(steps)));
    }
    cosine.upload(c.data());
    sine.upload(s.data());
  });
}

}  // namespace hexad::layers
