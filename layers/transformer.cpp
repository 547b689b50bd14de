#include "layers/transformer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "layers/block_runner.h"
#include "parallel/tp/regions.h"

namespace hexad::layers {

using namespace autograd;
using namespace base;
namespace {

// Returns the placement of the embedding. The pipeline ranks of the first and the last stage each compute an addend of
// the gradient if both have the embedding.
Placement embedding_placement(const ModelConfig& c, const Builder& b, const std::vector<ModelPart>& parts) {
  Placement p = b.shard(0);
  const bool both_ends = parts.front().first && parts.back().last;
  if (c.embeds_at_the_end() && !both_ends) p.partial.push_back(Axis::pp);
  return p;
}

}  // namespace

Transformer::Transformer(const ModelConfig& c, const Registry& registry, const moe::MoeSchedule& schedule,
                         const Builder& b, std::vector<ModelPart> parts)
    : config_(c), dtype_(b.dtype()), tensor_(b.tensor_parallel()), parts_(std::move(parts)) {
  require(!parts_.empty(), "[transformer] the list of parts is empty; expected at least one part");
  const Init random{Init::Kind::normal, c.init_std};
  const Shape table{c.vocab, c.hidden};
  const auto make_embedding = [&] {
    if (embedding_) return;
    const Placement placement = embedding_placement(c, b, parts_);
    embedding_ = &b.parameter("embedding.weight", table, {.init = random, .placement = placement});
  };
  if (c.position == PositionKind::rotary)
    rotary_ = std::make_unique<RotaryTable>(c.context, RotaryFrequencies::of(c), accumulator_dtype(dtype_), b.device());
  if (c.temperature.scale > 0)
    temperature_ = std::make_unique<RotaryTable>(c.context, c.size_of_head(), c.temperature, accumulator_dtype(dtype_),
                                                 b.device());
  blocks_.resize(c.layers);
  for (const ModelPart& part : parts_) {
    if (part.first) {
      make_embedding();
      if (c.position == PositionKind::learned)
        position_embedding_ = &b.parameter("position_embedding.weight", {c.context, c.hidden}, {.init = random});
    }
    const auto spec_of = [&](int64_t block) {
      return Block::Spec{c, rotary_.get(), block, registry, schedule, temperature_.get()};
    };
    for (int64_t l = part.begin; l < part.end; ++l)
      blocks_[l] = std::make_unique<Block>(spec_of(l), b / "layers" / std::to_string(l));
    if (part.last) {
      if (c.prediction_blocks > 0) make_embedding();
      for (int64_t k = 0; k < c.prediction_blocks; ++k)
        predictions_.push_back(
            std::make_unique<PredictionBlock>(spec_of(c.layers + k), b / "prediction" / std::to_string(k)));
      norm_.emplace(Block::norm_config(c), b / "norm");
      if (c.tied_embedding) make_embedding();
      head_ =
          c.tied_embedding ? embedding_ : &b.parameter("head.weight", table, {.init = random, .placement = b.shard(0)});
      if (c.head_bias)
        head_bias_ = &b.parameter(
            "head.bias", {c.vocab},
            {.init = {Init::Kind::constant, 0}, .decay = false, .placement = b.shard(0), .accumulator = true});
    }
  }
}

// Returns the rows of `of_rows` that this tp rank holds: a share of them under sequence parallelism, otherwise all
// rows.
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

Transformer::PartOutput Transformer::blocks(Tape& t, const ForwardContext& context, const ModelPart& part,
                                            const Value& input, Recompute recompute) const {
  PartOutput out{part.first ? embed(t, context.batch) : input, {}};
  for (int64_t l = part.begin; l < part.end; ++l) {
    const auto run = [&] { return (*blocks_[l])(t, out.value, context, recompute); };
    auto [y, aux_losses] = context.blocks ? context.blocks->run(l, t, out.value, run) : run();
    out.value = std::move(y);
    if (aux_losses.data.defined()) out.aux_losses.push_back(aux_losses);
  }
  return out;
}

Transformer::PartOutput Transformer::forward(Tape& t, const ForwardContext& context, size_t part, const Value& input,
                                             const TrainOptions& options, Tensor* row_losses) const {
  PartOutput out = blocks(t, context, parts_[part], input, options.recompute);
  if (!parts_[part].last) return out;
  const auto normed_and_loss = [&] {
    const Scope scope(t, out.value.device(), "head and loss");
    const Value normed = (*norm_)(t, out.value);
    return std::pair(normed, head_loss(t, normed, context.batch.targets, options.loss, row_losses));
  };
  const auto [normed, loss] = normed_and_loss();
  out.value = loss;
  if (!context.batch.further.empty()) predict_further(t, context, normed, options, out);
  return out;
}

// Returns the summed cross-entropy of this rank's targets. `normed` contains normalised hidden states.
Value Transformer::head_loss(Tape& t, Value normed, const Tensor& targets, CrossEntropyOptions options,
                             Tensor* row_losses) const {
  if (tensor_.sequence) normed = tp::collect_rows(t, normed, *tensor_.group);
  options.bias = head_bias_;
  return tp::vocab_cross_entropy(t, normed, *head_, targets, *tensor_.group, options, row_losses);
}

// Runs the prediction blocks in order. The first block reads `hidden`, the hidden states of the model after its last
// norm. Every other block reads the hidden states of the previous block.
void Transformer::predict_further(Tape& t, const ForwardContext& context, Value hidden, const TrainOptions& options,
                                  PartOutput& out) const {
  require(context.batch.further.size() == predictions_.size(), "[transformer] the micro-batch has further tokens for ",
          context.batch.further.size(), " prediction blocks, but the model has ", predictions_.size(),
          "; expected equal numbers");
  CrossEntropyOptions loss = options.loss;
  loss.gradient_scale *= config_.prediction_share();
  for (size_t k = 0; k < predictions_.size(); ++k) {
    const MicroBatch::Further& further = context.batch.further[k];
    const Scope scope(t, hidden.device(), "prediction");
    const Value token = tp::vocab_embedding(t, *embedding_, further.ids, tensor_);
    PredictionBlock::Output y = (*predictions_[k])(t, token, hidden, context, options.recompute);
    hidden = y.hidden;
    if (y.aux_losses.data.defined()) out.aux_losses.push_back(y.aux_losses);
    const Value one = head_loss(t, hidden, further.targets, loss);
    out.prediction_loss = k == 0 ? one : add(t, out.prediction_loss, one);
  }
}

Transformer::PartOutput Transformer::loss(Tape& t, const ForwardContext& context, const TrainOptions& options,
                                          Tensor* row_losses) const {
  require(parts_.size() == 1 && parts_[0].first && parts_[0].last,
          "[transformer] the loss needs the whole model, but this rank has a part of it; expected pp = 1");
  return forward(t, context, 0, {}, options, row_losses);
}

Tensor Transformer::logits(Tape& t, const ForwardContext& context) const {
  require(parts_.size() == 1 && parts_[0].first && parts_[0].last && tensor_.group->size() == 1,
          "[transformer] logits need the whole model, but this rank has a part of it; expected pp = tp = 1");
  std::vector<int64_t> rows(context.batch.tokens());
  std::iota(rows.begin(), rows.end(), 0);
  return own_logits(t, activations(t, context, 0, {}), rows);
}

Value Transformer::activations(Tape& t, const ForwardContext& context, size_t part, const Value& input) const {
  return blocks(t, context, parts_[part], input, Recompute::none).value;
}

// Returns the rows `rows` of the micro-batch. Under sequence parallelism, `x` has only this tp rank's rows, and the tp
// ranks exchange the selected rows. Otherwise, `x` has all rows, and consecutive rows are not copied.
Tensor Transformer::picked_rows(device::Stream& stream, const Tensor& x, std::span<const int64_t> rows) const {
  const int64_t count = std::ssize(rows);
  if (!tensor_.sequence && rows.back() - rows.front() + 1 == count) return x.slice(0, rows.front(), rows.back() + 1);
  const int64_t own = x.dim(0), first = tensor_.sequence ? tensor_.group->rank() * own : 0;
  const Tensor picked = Tensor::zeros({count, x.dim(1)}, x.dtype(), x.device());
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t row = rows[i] - first; row >= 0 && row < own)
      kernels::kernels(x.device()).pointwise.copy(stream, picked.slice(0, i, i + 1), x.slice(0, row, row + 1));
  // Sums over the tp ranks. Each row is zero on every tp rank but one.
  if (tensor_.sequence) stream.wait(tensor_.group->all_reduce(picked, comm::Reduce::sum, stream));
  return picked;
}

Tensor Transformer::own_logits(Tape& t, const Value& last, std::span<const int64_t> rows) const {
  const Value x = (*norm_)(t, Value{picked_rows(t.stream, last.data, rows)});
  const tp::VocabularyPart ids = vocabulary();
  Tensor out = Tensor::empty({std::ssize(rows), ids.end - ids.begin}, accumulator_dtype(dtype_), x.device());
  kernels::kernels(x.device()).matmul.forward(t.stream, out, x.data, head_->use(t.stream), kernels::Write::replace);
  if (head_bias_) kernels::kernels(x.device()).bias.forward(t.stream, out, head_bias_->use(t.stream));
  return out;
}

tp::VocabularyPart Transformer::vocabulary() const {
  require(head_ != nullptr, "[transformer] this pipeline rank has no head; expected the rank of the last part");
  return tp::vocabulary_part("logits", *head_, *tensor_.group);
}

KeyValueCache Transformer::make_cache(int64_t length, Device device) const {
  KeyValueCache cache;
  cache.layers.resize(config_.layers);
  for (int64_t l = 0; l < config_.layers; ++l)
    if (blocks_[l]) cache.layers[l] = blocks_[l]->mixer().make_cache(length, dtype_, device);
  return cache;
}

std::vector<Transformer::MoePlace> Transformer::moe_layers() const {
  std::vector<MoePlace> places;
  for (int64_t l = 0; l < config_.layers; ++l)
    if (const auto& block = blocks_[l]; block && block->experts())
      places.push_back({static_cast<size_t>(config_.moe_layers_before(l)), block->experts()});
  for (size_t k = 0; k < predictions_.size(); ++k)
    if (moe::MoeLayer* experts = predictions_[k]->experts())
      places.push_back(
          {static_cast<size_t>(config_.moe_layers_before(config_.layers + static_cast<int64_t>(k))), experts});
  return places;
}

}  // namespace hexad::layers
