// Base class of attention and delta nets, the layers in which tokens read other tokens of their sequence.
#pragma once

#include "layers/base/builder.h"
#include "layers/base/layer_names.h"
#include "layers/base/micro_batch.h"

namespace hexad::layers {

/// Layer of a block that precedes its MLP or experts: self-attention or a delta net.
class TokenMixer {
 public:
  TokenMixer() = default;
  virtual ~TokenMixer() = default;
  TokenMixer(const TokenMixer&) = delete;
  TokenMixer& operator=(const TokenMixer&) = delete;

  /// Returns the output [rows, D] of the layer for the normalised input x [rows, D].
  virtual Value operator()(Tape& t, const Value& x, const ForwardContext& context) const = 0;
  /// Returns an empty cache of this layer for a sequence of up to `length` tokens.
  virtual KeyValueCache::Layer make_cache(int64_t length, Dtype dtype, Device device) const = 0;
};

}  // namespace hexad::layers
