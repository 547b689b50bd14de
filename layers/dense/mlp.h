// The built-in dense feed-forward layers.
#pragma once

#include <cmath>
#include <optional>

#include "layers/dense/feed_forward.h"
#include "layers/dense/linear.h"

namespace hexad::layers {

using autograd::gelu;
using autograd::swiglu;
using kernels::GeluKind;

/// SwiGLU layer down(silu(gate(x)) * up(x)) (Shazeer 2020). Its width is split over tp. A single matrix product
/// computes gate and up. With model.swiglu_limit, the layer uses the formula of kernels::ClampedSwigluKernels instead.
class SwigluMlp final : public FeedForward {
 public:
  struct Config {
    const ModelConfig& model;
    int64_t hidden;
  };
  SwigluMlp(const Config& c, const Builder& b)
      : limit_(c.model.swiglu_limit),
        tensor_(b.tensor_parallel()),
        gate_up_({c.model.hidden,
                  c.hidden,
                  c.model.init_std,
                  c.model.bias,
                  Parallel::column,
                  0,
                  {(b / "gate").prefix(), (b / "up").prefix()}},
                 b / "gate_up"),
        down_({c.hidden, c.model.hidden, c.model.init_std / std::sqrt(2.0 * static_cast<double>(c.model.layers)),
               c.model.bias, Parallel::row},
              b / "down") {}

  Value operator()(Tape& t, const Value& x, const ForwardContext&) const override {
    const tp::Projection both[] = {gate_up_.projection()};
    const Value activated = swiglu(t, tp::column_linear(t, x, both, tensor_)[0], limit_);
    return tp::row_linear(t, activated, *down_.weight, down_.bias, tensor_);
  }
  FeedForwardWork work() const override { return {.products = 3, .column_linears = 1, .row_linears = 1}; }

 private:
  std::optional<double> limit_;
  tp::TensorParallel tensor_;
  Linear gate_up_, down_;
};

/// GELU layer down(gelu(up(x))). Its width is split over tp.
class GeluMlp final : public FeedForward {
 public:
  struct Config {
    const ModelConfig& model;
    int64_t hidden;
  };
  GeluMlp(const Config& c, const Builder& b)
      : kind_(c.model.gelu),
        tensor_(b.tensor_parallel()),
        up_({c.model.hidden, c.hidden, c.model.init_std, c.model.bias, Parallel::column}, b / "up"),
        down_({c.hidden, c.model.hidden, c.model.init_std / std::sqrt(2.0 * static_cast<double>(c.model.layers)),
               c.model.bias, Parallel::row},
              b / "down") {}

  Value operator()(Tape& t, const Value& x, const ForwardContext&) const override {
    const tp::Projection up[] = {up_.projection()};
    return tp::row_linear(t, gelu(t, tp::column_linear(t, x, up, tensor_)[0], kind_), *down_.weight, down_.bias,
                          tensor_);
  }
  FeedForwardWork work() const override { return {.products = 2, .column_linears = 1, .row_linears = 1}; }

 private:
  GeluKind kind_;
  tp::TensorParallel tensor_;
  Linear up_, down_;
};

}  // namespace hexad::layers
