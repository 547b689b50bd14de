// The recipe's section `model`.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/constraints.h"
#include "layers/base/delta_net_config.h"
#include "layers/base/latent_config.h"
#include "layers/base/moe_config.h"

namespace hexad::layers {

enum class ModelKind : uint8_t { decoder, encoder };
constexpr auto enum_names(ModelKind) {
  return std::to_array<std::pair<ModelKind, std::string_view>>(
      {{ModelKind::decoder, "decoder"}, {ModelKind::encoder, "encoder"}});
}

enum class NormKind : uint8_t { rms_norm, layer_norm, zero_centred_rms_norm };
constexpr auto enum_names(NormKind) {
  return std::to_array<std::pair<NormKind, std::string_view>>(
      {{NormKind::rms_norm, "rms_norm"},
       {NormKind::layer_norm, "layer_norm"},
       {NormKind::zero_centred_rms_norm, "zero_centred_rms_norm"}});
}

enum class PositionKind : uint8_t { rotary, learned };
constexpr auto enum_names(PositionKind) {
  return std::to_array<std::pair<PositionKind, std::string_view>>(
      {{PositionKind::rotary, "rotary"}, {PositionKind::learned, "learned"}});
}

/// RMSNorm of queries and keys.
///   - none: no norm
///   - head: a norm of each head, with one gain for all heads
///   - all_heads: a norm over all heads together (OLMoE)
///   - unit: a norm of each head without a gain, only in blocks with rotary positions (Llama 4)
enum class QkNorm : uint8_t { none, head, all_heads, unit };
constexpr auto enum_names(QkNorm) {
  return std::to_array<std::pair<QkNorm, std::string_view>>({{QkNorm::none, "none"},
                                                             {QkNorm::head, "head"},
                                                             {QkNorm::all_heads, "all_heads"},
                                                             {QkNorm::unit, "unit"},
                                                             // aliases, which recipes may use but the program never
                                                             // writes
                                                             {QkNorm::none, "false"},
                                                             {QkNorm::head, "true"}});
}

/// YaRN (Peng et al. 2023), which extends rotary positions from `original_context` tokens to `factor` times as many.
struct YarnConfig {
  double factor = 1;  // 1: YaRN is off
  int64_t original_context = 4096;
  double beta_fast = 32, beta_slow = 1;
  double mscale = 1, mscale_all_dim = 0;
  bool truncate = true;

  /// Returns 0.1 m ln(factor) + 1, or 1 if YaRN is off.
  double magnitude(double m) const { return factor == 1 ? 1 : 0.1 * m * std::log(factor) + 1; }
  /// Returns the factor by which latent attention multiplies all dimensions of queries and keys.
  double score_magnitude() const { return magnitude(mscale_all_dim); }
  /// Returns the factor by which the tables of cos and sin are multiplied.
  double table_magnitude() const { return magnitude(mscale) / score_magnitude(); }

  template <class V>
  void fields(V& v) {
    v("factor", factor, "maximum context as a multiple of original_context; 1: no YaRN", config::at_least(1));
    v("original_context", original_context,
      "length of the context, in tokens, with which the model was trained before YaRN", config::at_least(1));
    v("beta_fast", beta_fast, "number of rotations over original_context above which a dimension keeps its frequency",
      config::positive());
    v("beta_slow", beta_slow, "number of rotations over original_context below which a dimension is fully interpolated",
      config::positive());
    v("mscale", mscale, "the rotated dimensions of queries and keys are multiplied by 0.1 mscale ln(factor) + 1",
      config::at_least(0));
    v("mscale_all_dim", mscale_all_dim,
      "latent attention: all dimensions of queries and keys are multiplied by x = 0.1 mscale_all_dim ln(factor) + 1, "
      "and the factor of mscale is divided by x",
      config::at_least(0));
    v("truncate", truncate,
      "true: the interpolation begins and ends at whole dimensions; false: exactly at beta_fast and beta_slow "
      "(gpt-oss)");
  }
};

/// Method, other than YaRN, that scales the rotary frequencies for contexts longer than in training.
enum class RotaryScaling : uint8_t { none, linear, ntk, llama3, longrope };
constexpr auto enum_names(RotaryScaling) {
  return std::to_array<std::pair<RotaryScaling, std::string_view>>({{RotaryScaling::none, "none"},
                                                                    {RotaryScaling::linear, "linear"},
                                                                    {RotaryScaling::ntk, "ntk"},
                                                                    {RotaryScaling::llama3, "llama3"},
                                                                    {RotaryScaling::longrope, "longrope"}});
}

struct RotaryScalingConfig {
  RotaryScaling kind = RotaryScaling::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_context = 8192;
  std::vector<double> short_factors{}, long_factors{};
  double short_magnitude = 1, long_magnitude = 1;

  template <class V>
  void fields(V& v) {
    v("kind", kind,
      "linear: divides all frequencies by factor; ntk: raises the base, so that the lowest frequency is divided by "
      "factor; llama3: divides only low frequencies, those with few rotations over original_context (Llama 3.1); "
      "longrope: divides each frequency by a separate number (LongRoPE, Phi-3.5-MoE)");
    v("factor", factor, "maximum context as a multiple of the context of training", config::at_least(1));
    v("low_freq_factor", low_freq_factor,
      "llama3: number of rotations over original_context below which a frequency is divided by factor",
      config::positive());
    v("high_freq_factor", high_freq_factor,
      "llama3: number of rotations over original_context above which a frequency is unchanged", config::positive());
    v("original_context", original_context,
      "llama3 and longrope: length of the context, in tokens, with which the model was trained before scaling",
      config::at_least(1));
    v("short_factors", short_factors,
      "longrope: divisor of the frequency of each pair of dimensions if model.context is at most original_context",
      config::positive());
    v("long_factors", long_factors,
      "longrope: divisor of the frequency of each pair of dimensions if model.context is above original_context",
      config::positive());
    v("short_magnitude", short_magnitude,
      "longrope: factor of the rotated dimensions of queries and keys if model.context is at most original_context",
      config::positive());
    v("long_magnitude", long_magnitude,
      "longrope: factor of the rotated dimensions of queries and keys if model.context is above original_context",
      config::positive());
  }
};

/// Factor of the queries in blocks without rotary positions: 1 + scale * ln(1 + n). The factor grows with the position
/// p, counted from 0: n is (p + 1) / floor, rounded down (Nakanishi 2025, arXiv 2501.19399; Llama 4).
struct TemperatureConfig {
  double scale = 0;  // 0: queries are not multiplied
  int64_t floor = 8192;

  template <class V>
  void fields(V& v) {
    v("scale", scale, "coefficient of the logarithm in the factor; 0: queries are not multiplied", config::at_least(0));
    v("floor", floor, "number of tokens between two increases of the factor; the first is at position floor - 1",
      config::at_least(1));
  }
};

/// Default of model.prediction_weight: the weight that DeepSeek-V3 used for the first 10 trillion of its 14.8 trillion
/// training tokens.
inline constexpr double usual_prediction_weight = 0.3;

struct ModelConfig {
  ModelKind kind = ModelKind::decoder;
  int64_t layers = 4, hidden = 256, heads = 4;
  std::optional<int64_t> kv_heads, head_size;
  AttentionKind attention = AttentionKind::grouped;
  int64_t context = 256;
  int64_t vocab = 0;
  NormKind norm = NormKind::rms_norm;
  double norm_eps = 1e-5;
  PositionKind position = PositionKind::rotary;
  double rotary_theta = 10000, rotary_share = 1;
  LatentConfig latent;
  bool attention_gate = false;
  DeltaNetConfig delta_net;
  YarnConfig yarn;
  RotaryScalingConfig rotary_scaling;
  int64_t no_rotary_every = 0;
  TemperatureConfig temperature;
  std::string mlp = "swiglu";
  std::optional<int64_t> mlp_hidden;
  kernels::GeluKind gelu = kernels::GeluKind::exact;
  std::vector<config::NumberOption> mlp_options;
  bool bias = false;
  std::optional<bool> qkv_bias, o_bias;
  QkNorm qk_norm = QkNorm::none;
  bool tied_embedding = false, head_bias = false;
  std::optional<double> qkv_clip;
  std::optional<int64_t> window, attention_chunk;
  int64_t full_attention_every = 0;
  bool sinks = false;
  std::optional<double> swiglu_limit;
  int64_t prediction_blocks = 0;
  double prediction_weight = usual_prediction_weight;
  double init_std = 0.02;
  moe::MoeConfig moe;

  int64_t key_value_heads() const { return kv_heads.value_or(heads); }
  bool is_latent() const { return attention == AttentionKind::latent; }
  /// Returns the size of a query or key head.
  int64_t size_of_head() const { return is_latent() ? latent.key_size() : head_size.value_or(hidden / heads); }
  /// Returns the size of a value head.
  int64_t size_of_value() const { return is_latent() ? latent.value_size : size_of_head(); }
  /// Returns the number of elements that generation caches per token on each of `tp` ranks, in a layer with attention.
  int64_t cached_elements(int64_t tp) const {
    if (is_latent()) return latent.kv_rank + latent.rope_size;
    return 2 * std::max<int64_t>(1, key_value_heads() / tp) * size_of_head();
  }
  /// Returns the number of state elements that generation caches in a delta net, per sequence, on each of `tp` ranks.
  int64_t cached_states(int64_t tp) const { return delta_net.heads / tp * delta_net.key_size * delta_net.value_size; }
  /// Returns the number of dimensions of a head that rotary positions rotate.
  int64_t rotary_size() const {
    if (is_latent()) return latent.rope_size;
    return std::llround(rotary_share * static_cast<double>(size_of_head()));
  }
  int64_t dense_hidden() const { return mlp_hidden.value_or(4 * hidden); }
  bool has_qkv_bias() const { return qkv_bias.value_or(bias); }
  bool has_o_bias() const { return o_bias.value_or(bias); }
  bool has_expert_bias() const { return moe.expert_bias.value_or(bias); }
  /// True if block `layer` ignores `window`, `attention_chunk` and `delta_net`.
  bool has_full_attention(int64_t layer) const {
    return full_attention_every > 0 && layer % full_attention_every == full_attention_every - 1;
  }
  /// True if block `layer` has a delta net instead of attention. Prediction blocks always have attention.
  bool is_delta(int64_t layer) const { return delta_net.used() && layer < layers && !has_full_attention(layer); }
  /// Returns the size of the chunks in block `layer`; 0: no chunks. Tokens attend only to tokens of their chunk.
  int64_t chunk_of(int64_t layer) const { return has_full_attention(layer) ? 0 : attention_chunk.value_or(0); }
  /// Returns the maximum number of tokens to which a token attends in block `layer`, including the token itself; 0: no
  /// limit.
  int64_t window_of(int64_t layer) const {
    return has_full_attention(layer) ? 0 : window.value_or(attention_chunk.value_or(0));
  }
  /// True if block `layer` has rotary positions.
  bool has_rotary(int64_t layer) const {
    return position == PositionKind::rotary && !(no_rotary_every > 0 && layer % no_rotary_every == no_rotary_every - 1);
  }
  /// Returns the number of blocks after which the pattern of windows, chunks, delta nets and rotary positions repeats.
  int64_t attention_period() const {
    const bool mixed = window || attention_chunk || delta_net.used();
    return std::lcm(mixed && full_attention_every > 0 ? full_attention_every : 1,
                    std::max<int64_t>(1, no_rotary_every));
  }
  /// True if block `layer` has experts.
  bool is_moe(int64_t layer) const {
    return moe.experts > 0 && layer >= moe.dense_layers && (layer - moe.dense_layers) % moe.every == moe.every - 1;
  }
  /// Returns the properties in which block `layer` may differ from other blocks.
  std::array<int64_t, 5> kind_of(int64_t layer) const {
    return {is_moe(layer), is_delta(layer), window_of(layer), chunk_of(layer), has_rotary(layer)};
  }
  /// Returns the number of layers and prediction blocks. Prediction block k, from 0, is block layers + k.
  int64_t blocks() const { return layers + prediction_blocks; }
  /// True if the end of the model also uses the embedding: as a tied head, or in prediction blocks.
  bool embeds_at_the_end() const { return tied_embedding || prediction_blocks > 0; }
  /// Returns the weight of the loss of each prediction block. Requires prediction_blocks > 0.
  double prediction_share() const { return prediction_weight / static_cast<double>(prediction_blocks); }
  /// Returns the number of blocks with experts, prediction blocks included.
  int64_t moe_layers() const { return moe_layers_before(blocks()); }
  int64_t moe_layers_before(int64_t layer) const {
    int64_t count = 0;
    for (int64_t l = 0; l < layer; ++l) count += is_moe(l);
    return count;
  }

  template <class V>
  void fields(V& v) {
    using config::at_least, config::at_most, config::automatic, config::greater_than, config::positive;
    v("kind", kind, "decoder: causal, predicts the next token; encoder: bidirectional, masked-LM objective");
    v("layers", layers, "number of transformer blocks", at_least(1), at_most(1 << 14));
    v("hidden", hidden, "width of the residual stream", at_least(1), at_most(1 << 20));
    v("heads", heads, "number of query heads", at_least(1));
    v("kv_heads", kv_heads, "number of key/value heads (grouped queries); auto: same as heads", automatic, at_least(1));
    v("head_size", head_size, "width of a head; auto: hidden / heads, or rope_size + nope_size for latent attention",
      automatic, at_least(1), at_most(1 << 16));
    v("attention", attention,
      "grouped: groups of query heads share a key/value head; latent: keys and values are computed from a compressed "
      "vector of each token (DeepSeek-V2)");
    v("context", context, "number of tokens in a training sequence", at_least(1), at_most(1 << 30));
    v("vocab", vocab, "vocabulary size; 0: that of the training data", at_least(0), at_most(1 << 30));
    v("norm", norm,
      "normalisation before attention, MLP and head; zero_centred_rms_norm: RMSNorm whose gain is one plus the weight, "
      "also for model.qk_norm: head");
    v("norm_eps", norm_eps, "constant added to the variance (layer_norm) or to the mean square (other norms)",
      positive());
    v("position", position, "kind of position encoding");
    v("rotary_theta", rotary_theta, "base of the rotary frequencies", greater_than(1));
    v("rotary_share", rotary_share,
      "share of the dimensions of a head that rotary positions rotate, from the first dimension on", positive(),
      at_most(1));
    v("latent", latent, "sizes of latent attention; applies only to model.attention: latent");
    v("attention_gate", attention_gate,
      "grouped attention: each element of its result is multiplied by the sigmoid of a gate, which is a projection of "
      "the input (Qwen3-Next)");
    v("delta_net", delta_net,
      "gated delta nets, which replace attention in all blocks except every full_attention_every-th (Qwen3-Next)");
    v("yarn", yarn, "extension of rotary positions to longer contexts (YaRN)");
    v("rotary_scaling", rotary_scaling, "other extensions of rotary positions to longer contexts");
    v("no_rotary_every", no_rotary_every,
      "n: every n-th block has no rotary positions (Llama 4); 0: every block has the positions that position selects",
      at_least(0));
    v("temperature", temperature,
      "factor by which blocks without rotary positions multiply queries (Llama 4): 1 + scale ln(1 + n), where n is "
      "(p + 1) / floor, rounded down, and p is the position, counted from 0");
    v("mlp", mlp, "feed-forward layer of dense blocks: swiglu, gelu, or the name of a registered layer");
    v("mlp_hidden", mlp_hidden, "width of the dense MLP; auto: 4 hidden", automatic, at_least(1), at_most(1 << 24));
    v("gelu", gelu, "formula of GELU: exact, or the tanh approximation");
    v("swiglu_limit", swiglu_limit,
      "bound x of all SwiGLU layers: gate is clamped to at most x, up is clamped to [-x, x], and the result is gate "
      "sigmoid(1.702 gate) (up + 1) (gpt-oss); none: the usual SwiGLU without bounds",
      positive());
    v("mlp_options", mlp_options, "options of a registered layer, each with a name and a number");
    v("bias", bias,
      "dense MLPs, shared experts and LayerNorm have biases; also the value of qkv_bias, o_bias and moe.expert_bias if "
      "they are auto");
    v("qkv_bias", qkv_bias,
      "the projections to queries, keys, values and the gate of attention_gate have biases; auto: model.bias",
      automatic);
    v("o_bias", o_bias, "the output projection of attention has a bias; auto: model.bias", automatic);
    v("qk_norm", qk_norm,
      "RMSNorm of queries and keys; head: of each head; all_heads: over all heads together; unit: of each head, "
      "without a gain, only in blocks with rotary positions; false is an alias of none, true of head");
    v("tied_embedding", tied_embedding, "the output head and the embedding share their weights");
    v("head_bias", head_bias, "the output head adds a trainable bias to each token's logit (Phi-3.5-MoE)");
    v("qkv_clip", qkv_clip,
      "bound x: queries, keys and values are clamped to [-x, x], before qk_norm: head (DBRX) or after qk_norm: "
      "all_heads (OLMoE); none: no clamping",
      positive());
    v("window", window, "sliding window: number of tokens that a token attends to, itself included; none: no window",
      at_least(1));
    v("full_attention_every", full_attention_every,
      "n: every n-th block has full attention and ignores window, attention_chunk and delta_net; 0: no block ignores "
      "them",
      at_least(0));
    v("attention_chunk", attention_chunk,
      "number of tokens of a chunk: documents are divided into chunks, and a token attends only to tokens of its chunk "
      "(Llama 4); none: no chunks",
      at_least(1));
    v("sinks", sinks,
      "attention sinks: each head has a trainable logit that is added to the softmax of its queries and has no value");
    v("prediction_blocks", prediction_blocks,
      "number of blocks after the last layer that predict further tokens in training (DeepSeek-V3): block k, from 1, "
      "predicts the token k + 1 positions ahead; all blocks share the model's embedding and head",
      at_least(0));
    v("prediction_weight", prediction_weight,
      "weight of the mean loss of the prediction blocks, relative to the model's own loss", positive());
    v("init_std", init_std,
      "standard deviation of initial weights; for output projections, it is divided by sqrt(2 layers)", at_least(0));
    v("moe", moe, "mixture of experts");
  }
};

}  // namespace hexad::layers
