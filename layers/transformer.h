// The whole model, or the parts of it that a pipeline rank holds.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "layers/prediction_block.h"
#include "parallel/tp/split_vocabulary.h"

namespace hexad::layers {

using autograd::CrossEntropyOptions;

/// Consecutive blocks [begin, end) of a model: a virtual pipeline stage. The first part also has the embedding, before
/// its blocks. The last part also has the final norm, head and loss, after its blocks, and then the prediction blocks.
/// The last part also holds the embedding if the head is tied or there are prediction blocks.
struct ModelPart {
  int64_t begin, end;
  bool first, last;

  static ModelPart whole(const ModelConfig& c) { return {0, c.layers, true, true}; }
};

/// Model with embedding, blocks, norm and head: a decoder (predicts the next token) or an encoder (predicts masked
/// tokens). A decoder may have prediction blocks, which share its embedding and its head. They run only in forward()
/// and loss(), and only if the micro-batch has further tokens (MicroBatch::further).
class Transformer {
 public:
  /// Makes the whole model. `schedule` applies to all MoE layers.
  Transformer(const ModelConfig& c, const Registry& registry, const moe::MoeSchedule& schedule, const Builder& b)
      : Transformer(c, registry, schedule, b, {ModelPart::whole(c)}) {}
  /// Makes only `parts`, which must be in model order.
  Transformer(const ModelConfig& c, const Registry& registry, const moe::MoeSchedule& schedule, const Builder& b,
              std::vector<ModelPart> parts);

  struct TrainOptions {
    Recompute recompute = Recompute::none;
    CrossEntropyOptions loss;
  };
  struct PartOutput {
    Value value;                    // activations [rows, D]; in the last part, the loss [1] in the accumulator dtype
    std::vector<Value> aux_losses;  // one tensor [1] for each MoE layer with auxiliary losses
    /// Sum of the losses of all prediction blocks, [1] like the loss; without data if no prediction block ran. Its
    /// gradient must be TrainOptions::loss.gradient_scale times ModelConfig::prediction_share().
    Value prediction_loss{};
  };
  /// Runs the forward pass of a micro-batch through parts()[part]. `input` is the output of the previous part; the
  /// first part ignores `input`. The loss is the sum of the cross-entropy over this rank's targets, and is equal on all
  /// tp ranks. `row_losses` receives the loss of each row, [rows], if it is not null.
  PartOutput forward(Tape& t, const ForwardContext& context, size_t part, const Value& input,
                     const TrainOptions& options, Tensor* row_losses = nullptr) const;
  /// Like forward(), for a rank that has the whole model.
  PartOutput loss(Tape& t, const ForwardContext& context, const TrainOptions& options,
                  Tensor* row_losses = nullptr) const;
  /// Returns the logits [T, V] of all positions, in the accumulator dtype. This rank must have the whole model, with
  /// tp = 1.
  Tensor logits(Tape& t, const ForwardContext& context) const;

  /// Runs parts()[part] up to its last block, without final norm, head and loss, for generation. `input` is as in
  /// forward(). Returns the activations after the last block.
  Value activations(Tape& t, const ForwardContext& context, size_t part, const Value& input) const;
  /// Returns the logits [rows, ids] for the ids of vocabulary(), in the accumulator dtype. `rows` contains ascending
  /// indices of rows of the micro-batch. `last` is the result of activations() for the last part.
  Tensor own_logits(Tape& t, const Value& last, std::span<const int64_t> rows) const;
  /// Returns the token ids whose logits this tp rank computes. The rank must have the last part.
  tp::VocabularyPart vocabulary() const;

  const std::vector<ModelPart>& parts() const { return parts_; }
  /// Returns the shape of the activation between two parts.
  Shape activation_shape(const MicroBatch& batch) const;
  Dtype dtype() const { return dtype_; }

  /// Returns an empty cache for one sequence of up to `length` tokens, with the layers and heads of this rank.
  KeyValueCache make_cache(int64_t length, Device device) const;

  /// An MoE layer on this rank, and its index among the MoE layers of the whole model.
  struct MoePlace {
    size_t index;
    moe::MoeLayer* layer;
  };
  std::vector<MoePlace> moe_layers() const;
  const ModelConfig& config() const { return config_; }

 private:
  Value embed(Tape& t, const MicroBatch& batch) const;
  PartOutput blocks(Tape& t, const ForwardContext& context, const ModelPart& part, const Value& input,
                    Recompute recompute) const;
  Value head_loss(Tape& t, Value normed, const Tensor& targets, CrossEntropyOptions options,
                  Tensor* row_losses = nullptr) const;
  void predict_further(Tape& t, const ForwardContext& context, Value hidden, const TrainOptions& options,
                       PartOutput& out) const;
  Tensor own_rows(const Tensor& of_rows) const;
  Tensor picked_rows(device::Stream& stream, const Tensor& x, std::span<const int64_t> rows) const;

  ModelConfig config_;
  Dtype dtype_;
  tp::TensorParallel tensor_;
  std::vector<ModelPart> parts_;
  Parameter *embedding_ = nullptr, *position_embedding_ = nullptr, *head_ = nullptr;
  Parameter* head_bias_ = nullptr;  // null: the head has no bias
  std::unique_ptr<RotaryTable> rotary_, temperature_;
  std::vector<std::unique_ptr<Block>> blocks_;  // one entry per layer; null if another rank has the layer
  std::vector<std::unique_ptr<PredictionBlock>> predictions_;  // empty on ranks without the last part
  std::optional<Norm> norm_;
};

}  // namespace hexad::layers
