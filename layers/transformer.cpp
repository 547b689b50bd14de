#include "layers/transformer.h"

#include <algorithm>

#include "parallel/tp/regions.h"

namespace hexad::layers {

using namespace autograd;
using namespace base;
namespace {

// Returns the placement of the embedding and the head. If two pipeline ranks, those of the first and the last stage,
// hold the tied embedding, each computes an addend of its gradient.
Placement vocabulary_placement(const ModelConfig& c, const Builder& b, const std::vector<ModelPart>& parts) {
  Placement p = b.shard(0);
  const bool both_ends = parts.front().first && parts.back().last;
  if (c.tied_embedding && !both_ends) p.partial.push_back(Axis::pp);
  return p;
}

}  // namespace

Transformer::Transformer(const ModelConfig& c, const Registry& registry, const moe::MoeSchedule& schedule,
                         const Builder& b, std::vector<ModelPart> parts)
    : config_(c), dtype_(b.dtype()), tensor_(b.tensor_parallel()), parts_(std::move(parts)) {
  require(!parts_.empty(), "[transformer] there is no part, expected at least one");
  const Builder::Options vocabulary{.init = {Init::Kind::normal, c.init_std},
                                    .placement = vocabulary_placement(c, b, parts_)};
  if (c.position == PositionKind::rotary)
    rotary_ = std::make_unique<RotaryTable>(c.context, RotaryFrequencies::of(c), accumulator_dtype(dtype_), b.device());
  blocks_.resize(c.layers);
  for (const ModelPart& part : parts_) {
    if (part.first) {
      embedding_ = &b.parameter("embedding.weight", {c.vocab, c.hidden}, vocabulary);
      if (c.position == PositionKind::learned)
        position_embedding_ = &b.parameter("position_embedding.weight", {c.context, c.hidden},
                                           {.init = {Init::Kind::normal, c.init_std}});
    }
    for (int64_t l = part.begin; l < part.end; ++l)
      blocks_[l] = std::make_unique<Block>(Block::Spec{c, rotary_.get(), l, registry, schedule},
                                           b / "layers" / std::to_string(l));
    if (part.last) {
      norm_.emplace(Norm::Config{c.hidden, c.norm, c.norm_eps, c.bias}, b / "norm");
      head_ = c.tied_embedding && embedding_ ? embedding_
                                             : &b.parameter(c.tied_embedding ? "embedding.weight" : "head.weight",
                                                            {c.vocab, c.hidden}, vocabulary);
    }
  }
}

// Returns this tp rank's rows of `of_rows`: its share under sequence parallelism, otherwise all rows.
Tensor Transformer::own_rows(const Tensor& of_rows) const {
  if (!tensor_.sequence) return of_rows;
  const int64_t n = of_rows.dim(0) / tensor_.group->size(), rank = tensor_.group->rank();
  return of_rows.slice(0, rank * n, (rank + 1) * n);
}

Shape Transformer::activation_shape(const MicroBatch& batch) const {
  return {batch.rows() / (tensor_.sequence ? tensor_.group->size() : 1), config_.hidden};
}

Value Transformer::embed(Tape& t, const MicroBatch& batch) const {
  const Scope scope(t, batch.ids.device(), "embedding");
  const Value x = tp::vocab_embedding(t, *embedding_, batch.ids, tensor_);
  return position_embedding_ ? add(t, x, embedding(t, *position_embedding_, own_rows(batch.positions))) : x;
}

Transformer::PartOutput Transformer::blocks(Tape& t, const ForwardContext& pass, const ModelPart& part,
                                            const Value& input, Recompute recompute) const {
  PartOutput out{part.first ? embed(t, pass.batch) : input, {}};
  for (int64_t l = part.begin; l < part.end; ++l) {
    auto [y, aux_losses] = (*blocks_[l])(t, out.value, pass, recompute);
    out.value = std::move(y);
    if (aux_losses.data.defined()) out.aux_losses.push_back(aux_losses);
  }
  return out;
}

Transformer::PartOutput Transformer::forward(Tape& t, const ForwardContext& pass, size_t part, const Value& input,
                                             const TrainOptions& options, Tensor* row_losses) const {
  PartOutput out = blocks(t, pass, parts_[part], input, options.recompute);
  if (!parts_[part].last) return out;
  const Scope scope(t, out.value.device(), "head and loss");
  out.value = (*norm_)(t, out.value);
  if (tensor_.sequence) out.value = tp::collect_rows(t, out.value, *tensor_.group);
  out.value =
      tp::vocab_cross_entropy(t, out.value, *head_, pass.batch.targets, *tensor_.group, options.loss, row_losses);
  return out;
}

Transformer::PartOutput Transformer::loss(Tape& t, const ForwardContext& pass, const TrainOptions& options,
                                          Tensor* row_losses) const {
  require(parts_.size() == 1 && parts_[0].first && parts_[0].last,
          "[transformer] the loss needs the whole model, but this rank has a part of it");
  return forward(t, pass, 0, {}, options, row_losses);
}

Tensor Transformer::logits(Tape& t, const ForwardContext& pass) const {
  require(parts_.size() == 1 && parts_[0].first && parts_[0].last && tensor_.group->size() == 1,
          "[transformer] logits need the whole model, but this rank has a part of it");
  return own_logits(t, activations(t, pass, 0, {}), 0, pass.batch.tokens());
}

Value Transformer::activations(Tape& t, const ForwardContext& pass, size_t part, const Value& input) const {
  return blocks(t, pass, parts_[part], input, Recompute::none).value;
}

Tensor Transformer::own_logits(Tape& t, const Value& last, int64_t begin, int64_t end) const {
  Value x = (*norm_)(t, last);
  if (tensor_.sequence) x = tp::collect_rows(t, x, *tensor_.group);
  const tp::VocabularyPart ids = vocabulary();
  Tensor out = Tensor::empty({end - begin, ids.end - ids.begin}, accumulator_dtype(dtype_), x.device());
  kernels::kernels(x.device())
      .matmul.forward(t.stream, out, x.data.slice(0, begin, end), head_->use(t.stream), kernels::Write::replace);
  return out;
}

tp::VocabularyPart Transformer::vocabulary() const {
  require(head_ != nullptr, "[transformer] the head is on another rank of the pipeline");
  return tp::vocabulary_part("logits", *head_, *tensor_.group);
}

KeyValueCache Transformer::make_cache(int64_t length, Device device) const {
  KeyValueCache cache;
  cache.layers.resize(config_.layers);
  for (int64_t l = 0; l < config_.layers; ++l)
    if (blocks_[l]) cache.layers[l] = blocks_[l]->attention().make_cache(length, dtype_, device);
  return cache;
}

std::vector<Transformer::MoePlace> Transformer::moe_layers() const {
  std::vector<MoePlace> places;
  for (int64_t l = 0; l < config_.layers; ++l)
    if (const auto& block = blocks_[l]; block && block->experts())
      places.push_back({static_cast<size_t>(config_.moe_layers_before(l)), block->experts()});
  return places;
}

}  // namespace hexad::layers
