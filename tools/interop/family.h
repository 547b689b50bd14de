// Families of models of the Hugging Face library, as data: the keys of their config.json, and the names of their
// tensors. Import and export read the same tables.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::interop {

/// Conversion between the value of a config key and that of a recipe key.
enum class Conversion : uint8_t {
  same,
  head_norm,     // true: qk_norm head; false: none
  head_share,    // a number of dimensions of a head: rotary_share times the size of a head
  gelu_name,     // gelu_new or gelu_pytorch_tanh: tanh; gelu: exact
  zero_if_null,  // null: 0
  group_rule     // greedy: experts of all groups; group_limited_greedy: group_score best
};

/// A config key with the recipe key of the same meaning.
struct ConfigKey {
  std::string_view config;  // name, and other names of the key after '|'; the first one is written
  std::string_view recipe;
  std::string_view usual{};  // value if the key is missing, as JSON; "null": that of `auto`; empty: the key is required
  Conversion conversion = Conversion::same;
};

/// A config key that Hexad can only represent with one value.
struct FixedKey {
  std::string_view config;
  std::string_view value;  // as JSON; a missing key and null mean this value
};

/// A recipe key that has the same value in every model of a family.
struct Constant {
  std::string_view recipe;
  std::string_view value;  // as JSON
};

/// Config keys that say which blocks have experts.
enum class LayerPattern : uint8_t {
  none,          // dense models
  all,           // every block has experts
  sparse_step,   // decoder_sparse_step, mlp_only_layers
  first_dense,   // first_k_dense_replace
  start_and_end  // moe_layer_start_index, moe_layer_end_index, moe_layer_interval
};

/// Change of the elements between a foreign tensor and the parameters of Hexad.
enum class Rearrangement : uint8_t {
  none,
  transposed,      // the foreign tensor is [in, out]
  pairs,           // rows of each head rotate as pairs 2i, 2i + 1; Hexad rotates i and i + half
  latent_queries,  // rows of latent attention; see LatentRows
  latent_down,
  latent_up,
  // The following are of tensors with the experts in their first dimension:
  input_first,                 // the matrix of an expert is [in, out]
  interleaved,                 // rows 2i and 2i + 1 of an expert are row i of gate and of up
  interleaved_and_input_first  // columns 2i and 2i + 1 of an expert's matrix [in, 2 out] are rows of gate and of up
};

/// A part of a parameter of Hexad. `at` has the first indices of the part: numbers, or E for the number of the expert.
struct Target {
  std::string_view name;
  std::string_view at{};
};

/// Correspondence of one foreign tensor. In names, {L} is the number of a block and {E} the number of an expert.
/// Prediction blocks follow the layers: block model.layers + k is "layers.{L}" in names of Hexad here, and
/// "prediction.k" in a checkpoint.
/// `shape` has a size for each dimension: a letter of Sizes with an optional factor, or a number. After the
/// rearrangement, the foreign tensor is the concatenation of its targets. `when` lists conditions
/// that must all hold (Sizes::holds); no conditions: always.
struct TensorRow {
  std::string_view theirs;
  std::string_view shape;
  Target ours[3];  // unused ones have no name
  std::string_view when{};
  Rearrangement rearrangement = Rearrangement::none;
};

/// A parameter or state of Hexad.
struct OwnRow {
  std::string_view name;
  std::string_view shape;
  std::string_view when{};
  bool state = false;
};

struct Family {
  std::string_view model_type;    // as in config.json
  std::string_view architecture;  // name of the class for language models
  std::vector<std::span<const TensorRow>> names;
  std::vector<std::span<const ConfigKey>> keys;
  std::vector<FixedKey> fixed;
  std::vector<Constant> constants;
  std::vector<std::string_view> neutral;   // further keys that do not change what Hexad computes
  std::vector<std::string_view> training;  // keys whose effect on training is not taken over
  std::vector<std::string_view> ignored;   // names of tensors that are not read; * stands for any text, {N} for the
                                           // number of a block that predicts further tokens
  std::span<const TensorRow> copies{};     // names of tensors that equal those of `names` with the same targets: import
                                           // only compares them, export writes them
  LayerPattern pattern = LayerPattern::none;
  double rotary_theta = 10000;  // base if config.json has none; 0: the family has no rotary positions
  double rotary_share = 1;      // share of each head that rotates if config.json has none
  bool pairs = false;           // true if rotary pairs are neighbours
  bool windows = false;         // true if layer_types may name blocks with sliding windows
  bool mxfp4 = false;           // true if experts may be stored in MXFP4
  bool scaled_rotary = false;   // true if config.json must name the scaling of rotary frequencies
};

/// Returns all families, in the order of the documentation.
std::span<const Family> families();
/// Returns the family of a model_type. Throws Error(data) beginning with `where` that lists the families if there is
/// none.
const Family& find_family(std::string_view model_type, const std::string& where);

/// Returns the parameters and states of Hexad that a foreign checkpoint can hold.
std::span<const OwnRow> own_rows();

/// Config keys that do not change what a model computes, in all families.
std::span<const std::string_view> neutral_keys();

// Tables of names, one for each naming class:

std::span<const TensorRow> llama_names();          // everything but experts, in all families but GPT-2
std::span<const TensorRow> latent_names();         // everything but experts, of latent attention
std::span<const TensorRow> expert_names();         // mlp.experts.E.gate_proj, or fused mlp.experts.gate_up_proj
std::span<const TensorRow> block_sparse_names();   // block_sparse_moe.experts.E.w1
std::span<const TensorRow> shared_expert_names();  // mlp.shared_experts
std::span<const TensorRow> gated_shared_names();   // mlp.shared_expert with a gate
std::span<const TensorRow> gate_bias_names();      // mlp.gate.e_score_correction_bias
std::span<const TensorRow> statics_bias_names();   // mlp.moe_statics.e_score_correction_bias
std::span<const TensorRow> block_bias_names();     // block_sparse_moe.e_score_correction_bias
std::span<const TensorRow> prediction_names();     // enorm, hnorm, eh_proj, shared_head.norm of prediction blocks
std::span<const TensorRow> prediction_copies();    // embedding and head, which each prediction block stores again
std::span<const TensorRow> gpt_oss_names();        // mlp.router, fused experts with biases, input first or in MXFP4
std::span<const TensorRow> gpt2_names();

}  // namespace hexad::interop
