// The dense feed-forward layers of Hexad itself.
#pragma once

#include <cmath>

#include "layers/feed_forward.h"
#include "layers/linear.h"

namespace hexad::layers {

/// down(silu(gate(x)) * up(x)) (Shazeer 2020).
class SwigluMlp final : public FeedForward {
 public:
  struct Config {
    const ModelConfig& model;
    int64_t hidden;
  };
  SwigluMlp(const Config& c, const Builder& b)
      : gate_({c.model.hidden, c.hidden, c.model.init_std, c.model.bias}, b / "gate"),
        up_({c.model.hidden, c.hidden, c.model.init_std, c.model.bias}, b / "up"),
        down_({c.hidden, c.model.hidden, c.model.init_std / std::sqrt(2.0 * static_cast<double>(c.model.layers)),
               c.model.bias},
              b / "down") {}

  Value operator()(Tape& t, const Value& x, const Pass&) const override {
    return down_(t, swiglu(t, gate_(t, x), up_(t, x)));
  }

 private:
  Linear gate_, up_, down_;
};

/// down(gelu(up(x))).
class GeluMlp final : public FeedForward {
 public:
  struct Config {
    const ModelConfig& model;
    int64_t hidden;
  };
  GeluMlp(const Config& c, const Builder& b)
      : kind_(c.model.gelu),
        up_({c.model.hidden, c.hidden, c.model.init_std, c.model.bias}, b / "up"),
        down_({c.hidden, c.model.hidden, c.model.init_std / std::sqrt(2.0 * static_cast<double>(c.model.layers)),
               c.model.bias},
              b / "down") {}

  Value operator()(Tape& t, const Value& x, const Pass&) const override { return down_(t, gelu(t, up_(t, x), kind_)); }

 private:
  GeluKind kind_;
  Linear up_, down_;
};

}  // namespace hexad::layers
