// Conversion between f32 main weights and rests (docs/adr/0014): the 16 bits of a main weight that the bf16 weight does
// not contain. All functions compute on the host. Updates use kernels instead.
#pragma once

#include "framework/tensor/tensor.h"

namespace hexad::optim {

using tensor::Tensor;

/// f32 main weights, stored in three flat tensors of the same length. A mark is one more bit of a main weight (defined
/// in framework/base/main_weight.h).
struct Rests {
  Tensor weights;  // bf16: the weights of the model
  Tensor rests;    // the lower 16 bits of the main weights, in a tensor of dtype bf16
  Tensor moments;  // f32 or bf16: a state that is never negative, so that its signs can store the marks

  bool defined() const { return rests.defined(); }
  /// Returns elements [begin, end) as slices, which share the memory.
  Rests slice(int64_t begin, int64_t end) const {
    return {weights.slice(0, begin, end), rests.slice(0, begin, end), moments.slice(0, begin, end)};
  }
};

/// Returns the main weights, as f32 in host memory.
Tensor main_weights(const Rests& stored);
/// Returns the moments without marks, in host memory.
Tensor unmarked_moments(const Rests& stored);
/// Stores the main weights `main`, which are f32 in host memory. Changes weights, rests, and the signs of the moments.
void store_main_weights(const Tensor& main, const Rests& stored);

}  // namespace hexad::optim
