// Interface of objects that run the blocks of a model in a training pass. An example is an object that repeats equal
// blocks on a meta device.
#pragma once

#include <functional>

#include "layers/block.h"

namespace hexad::layers {

class BlockRunner {
 public:
  using RunBlock = std::function<Block::Output()>;

  virtual ~BlockRunner() = default;
  /// Returns the output of block `layer` for input `x`. `block` runs the block on tape `t`.
  virtual Block::Output run(int64_t layer, Tape& t, const Value& x, const RunBlock& block) = 0;
};

}  // namespace hexad::layers
