#include "layers/prediction_block.h"

namespace hexad::layers {

using namespace autograd;
namespace {

// Returns the concatenation [T, 2 D] of the rows of two values [T, D].
Value side_by_side(Tape& t, const Value& left, const Value& right) {
  const int64_t rows = left.data.dim(0), size = left.data.dim(1);
  const Value both = join_heads(t, left, reshape(t, right, {rows, 1, size}));
  return reshape(t, both, {rows, 2 * size});
}

}  // namespace

PredictionBlock::PredictionBlock(const Block::Spec& s, const Builder& b)
    : token_norm_(Block::norm_config(s.model), b / "token_norm"),
      hidden_norm_(Block::norm_config(s.model), b / "hidden_norm"),
      projection_({.inputs = 2 * s.model.hidden, .outputs = s.model.hidden, .init_std = s.model.init_std},
                  b / "projection"),
      block_(s, b),
      norm_(Block::norm_config(s.model), b / "norm") {}

PredictionBlock::Output PredictionBlock::operator()(Tape& t, const Value& token, const Value& hidden,
                                                    const ForwardContext& context, Recompute recompute) const {
  const Value input = projection_(t, side_by_side(t, token_norm_(t, token), hidden_norm_(t, hidden)));
  const auto [y, aux_losses] = block_(t, input, context, recompute);
  return {norm_(t, y), aux_losses};
}

}  // namespace hexad::layers
