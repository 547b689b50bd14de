// Angles of the rotary position embedding.
#pragma once

#include "framework/tensor/tensor.h"
#include "layers/base/model_config.h"

namespace hexad::layers {

/// Tables of cos and sin of position * frequency, [positions, head_size / 2] each, in `dtype` (f32 or f64). The
/// frequencies are theta^(-2 i / C) (Su et al. 2021). If yarn.factor > 1, YaRN stretches them (Peng et al. 2023,
/// "NTK-by-parts", eqs. 17-19, with the ramp between beta_fast and beta_slow turns). It also multiplies the tables by
/// 0.1 ln(factor) + 1.
struct RotaryTable {
  tensor::Tensor cosine, sine;

  RotaryTable(int64_t positions, int64_t head_size, double theta, const YarnConfig& yarn, base::Dtype dtype,
              device::Device device);
};

}  // namespace hexad::layers
