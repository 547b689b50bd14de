// MoE layer with the objects that a test needs for it.
#pragma once

#include "layers/moe/moe_layer.h"
#include "layers/moe/router/router_statistics.h"
#include "parallel/comm/self_group.h"
#include "tests/moe/names.h"
#include "tests/support/gradcheck.h"
#include "tests/training/training.h"

namespace hexad::tests {

using autograd::Init;
using base::bf16;
using base::with_dtype;
using layers::ModelConfig;

/// MoE layer of small_recipe() with overrides, without the other layers. By default, it has 16 features, 4 experts of
/// width 12, and top-2 routing.
class MoeLab : public Lab {
 public:
  MoeLab(const std::vector<std::string>& overrides, const comm::ProcessGroup& world, int ep = 1,
         Dtype dtype = Dtype::f64)
      : config(small_recipe(overrides).model),
        mesh(world, {.dp = world.size(), .ep = ep}),
        layer({config, 0, 0, Registry().router_of(config), {}, moe::alternating_order()},
              Builder(parameters, states, mesh, dtype) / "moe"),
        statistics(1, config.moe.experts, context) {
    for (const auto& p : parameters) {
      p->initialize(default_seed);
      // Biases of zero would hide an error in their addition.
      if (p->spec().init.kind == Init::Kind::constant) fill_counting(p->local());
    }
  }
  explicit MoeLab(const std::vector<std::string>& overrides = {}) : MoeLab(overrides, alone()) {}

  /// Returns `sequences` sequences of `length` tokens. Tokens from index `valid` on are padding. A negative `valid`
  /// means no padding.
  MicroBatch batch(int64_t sequences, int64_t length, int64_t valid = -1) {
    MicroBatch b;
    b.sequences = sequences, b.length = length;
    if (valid >= 0) {
      std::vector<uint8_t> mask(b.tokens(), 0);
      std::fill_n(mask.begin(), valid, uint8_t{1});
      b.valid = values(mask);
      for (int64_t s = 0; s < sequences; ++s)
        b.valid_tokens.push_back(std::clamp<int64_t>(valid - s * length, 0, length));
    }
    return b;
  }
  /// Returns the statistics of the layer's router so far.
  const RouterStatistics& observed() {
    statistics.read(stream());
    return statistics.layers[0];
  }
  Parameter& parameter(const std::string& name) { return parameters.find("moe." + name); }

  ModelConfig config;
  mesh::Mesh mesh;
  StateSet states;
  moe::MoeLayer layer;
  ModelStatistics statistics;

 private:
  static const comm::ProcessGroup& alone() {
    static const comm::SelfGroup self;
    return self;
  }
  static void fill_counting(const Tensor& t) {
    with_dtype<float, bf16, double>("fill", t.dtype(), [&]<class T>() {
      std::vector<T> values;
      for (int64_t i = 0; i < t.numel(); ++i) values.push_back(T(0.25f * static_cast<float>(i % 5) - 0.4f));
      assign(t, values);
    });
  }
};

}  // namespace hexad::tests
