// The dense feed-forward layers of Hexad itself.
#pragma once

#include <cmath>

#include "layers/feed_forward.h"
#include "layers/linear.h"

namespace hexad::layers {

/// down(silu(gate(x)) * up(x)) (Shazeer 2020); its width is cut over tp.
class SwigluMlp final : public FeedForward {
 public:
  struct Config {
    const ModelConfig& model;
    int64_t hidden;
  };
  SwigluMlp(const Config& c, const Builder& b)
      : tensor_(b.tensor_parallel()),
        gate_({c.model.hidden, c.hidden, c.model.init_std, c.model.bias, Cut::outputs}, b / "gate"),
        up_({c.model.hidden, c.hidden, c.model.init_std, c.model.bias, Cut::outputs}, b / "up"),
        down_({c.hidden, c.model.hidden, c.model.init_std / std::sqrt(2.0 * static_cast<double>(c.model.layers)),
               c.model.bias, Cut::inputs},
              b / "down") {}

  Value operator()(Tape& t, const Value& x, const Pass&) const override {
    const tp::Projection both[] = {gate_.projection(), up_.projection()};
    const auto y = tp::column_linear(t, x, both, tensor_);
    return tp::row_linear(t, swiglu(t, y[0], y[1]), *down_.weight, down_.bias, tensor_);
  }

 private:
  tp::TensorParallel tensor_;
  Linear gate_, up_, down_;
};

/// down(gelu(up(x))); its width is cut over tp.
class GeluMlp final : public FeedForward {
 public:
  struct Config {
    const ModelConfig& model;
    int64_t hidden;
  };
  GeluMlp(const Config& c, const Builder& b)
      : kind_(c.model.gelu),
        tensor_(b.tensor_parallel()),
        up_({c.model.hidden, c.hidden, c.model.init_std, c.model.bias, Cut::outputs}, b / "up"),
        down_({c.hidden, c.model.hidden, c.model.init_std / std::sqrt(2.0 * static_cast<double>(c.model.layers)),
               c.model.bias, Cut::inputs},
              b / "down") {}

  Value operator()(Tape& t, const Value& x, const Pass&) const override {
    const tp::Projection up[] = {up_.projection()};
    return tp::row_linear(t, gelu(t, tp::column_linear(t, x, up, tensor_)[0], kind_), *down_.weight, down_.bias,
                          tensor_);
  }

 private:
  GeluKind kind_;
  tp::TensorParallel tensor_;
  Linear up_, down_;
};

}  // namespace hexad::layers
