// Tables for the rotation of queries and keys (rotary positions), and for the factor of queries (temperature).
#pragma once

#include "framework/tensor/tensor.h"
#include "layers/base/model_config.h"

namespace hexad::layers {

/// Frequencies of the rotary position embedding. At most one of `yarn` and `scaling` changes them.
struct RotaryFrequencies {
  int64_t size;  // number of rotated dimensions; even, because they are rotated in pairs
  double theta;
  YarnConfig yarn{};
  RotaryScalingConfig scaling{};

  static RotaryFrequencies of(const ModelConfig& c) {
    return {c.rotary_size(), c.rotary_theta, c.yarn, c.rotary_scaling};
  }
};

/// Tables of cos and sin of position * frequency, [positions, size / 2] each, in `dtype` (f32 or f64). The frequencies
/// are theta^(-2 i / size) (Su et al. 2021). YaRN stretches the frequencies if yarn.factor > 1 (Peng et al. 2023,
/// "NTK-by-parts": eqs. 17-19 with the ramp between beta_fast and beta_slow rotations), and multiplies the tables by
/// YarnConfig::table_magnitude(). `scaling` selects one of the other scalings (RotaryScalingConfig). For LongRoPE,
/// `positions` determines the factors and the magnitude.
struct RotaryTable {
  tensor::Tensor cosine, sine;

  RotaryTable(int64_t positions, const RotaryFrequencies& frequencies, base::Dtype dtype, device::Device device);
  /// Makes a table that multiplies heads of `size` elements by the factor of TemperatureConfig instead of rotating
  /// them.
  RotaryTable(int64_t positions, int64_t size, const TemperatureConfig& temperature, base::Dtype dtype,
              device::Device device);
};

}  // namespace hexad::layers
