#include "layers/transformer.h"

namespace hexad::layers {

Transformer::Transformer(const ModelConfig& c, const Registry& registry, const Builder& b)
    : config_(c), dtype_(b.dtype()) {
  const Init init{Init::Kind::normal, c.init_std};
  embedding_ = &b.parameter("embedding.weight", {c.vocab, c.hidden}, {.init = init});
  if (c.position == PositionKind::learned)
    position_embedding_ = &b.parameter("position_embedding.weight", {c.context, c.hidden}, {.init = init});
  else
    rotary_ = std::make_unique<RotaryTable>(c.context, c.size_of_head(), c.rotary_theta, c.yarn,
                                            accumulator_dtype(dtype_), b.device());
  int64_t moe_index = 0;
  for (int64_t l = 0; l < c.layers; ++l) {
    blocks_.emplace_back(c, rotary_.get(), l, moe_index, registry, b / "layers" / std::to_string(l));
    moe_index += c.is_moe(l);
  }
  norm_.emplace(Norm::Config{c.hidden, c.norm, c.norm_eps, c.bias}, b / "norm");
  head_ = c.tied_embedding ? embedding_ : &b.parameter("head.weight", {c.vocab, c.hidden}, {.init = init});
}

std::pair<Value, std::vector<Value>> Transformer::hidden(Tape& t, const Pass& pass, Recompute recompute) const {
  Value x = embedding(t, *embedding_, pass.batch.ids);
  if (position_embedding_) x = add(t, x, embedding(t, *position_embedding_, pass.batch.positions));
  std::vector<Value> penalties;
  for (const Block& block : blocks_) {
    auto [y, penalty] = block(t, x, pass, recompute);
    x = std::move(y);
    if (penalty.data.defined()) penalties.push_back(penalty);
  }
  return {(*norm_)(t, x), std::move(penalties)};
}

Transformer::Losses Transformer::loss(Tape& t, const Pass& pass, const TrainOptions& options,
                                      Tensor* row_losses) const {
  auto [x, penalties] = hidden(t, pass, options.recompute);
  return {linear_cross_entropy(t, x, *head_, pass.batch.targets, options.loss, row_losses), std::move(penalties)};
}

Tensor Transformer::logits(Tape& t, const Pass& pass) const {
  const Value x = hidden(t, pass, Recompute::none).first;
  Tensor out = Tensor::empty({pass.batch.tokens(), config_.vocab}, accumulator_dtype(dtype_), x.device());
  kernels::kernels(x.device()).matmul.forward(t.stream, out, x.data, head_->use(t.stream));
  return out;
}

KeyValueCache Transformer::make_cache(int64_t length, Device device) const {
  KeyValueCache cache;
  const Shape shape{length, config_.key_value_heads(), config_.size_of_head()};
  for (int64_t l = 0; l < config_.layers; ++l)
    cache.layers.push_back({Tensor::empty(shape, dtype_, device), Tensor::empty(shape, dtype_, device)});
  return cache;
}

std::vector<moe::MoeLayer*> Transformer::moe_layers() const {
  std::vector<moe::MoeLayer*> layers;
  for (const Block& block : blocks_)
    if (block.experts()) layers.push_back(block.experts());
  return layers;
}

}  // namespace hexad::layers
