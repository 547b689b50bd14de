// Families of Hugging Face models, as data: the keys of their config.json, and the names of their tensors. Import and
// export read the same tables.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::interop {

/// Conversion between the values of a config key and of a recipe key.
enum class Conversion : uint8_t {
  same,
  head_norm,     // true: qk_norm head; false: none
  head_share,    // the config gives a number of dimensions of a head: rotary_share times the size of a head
  gelu_name,     // gelu_new or gelu_pytorch_tanh: tanh; gelu: exact
  zero_if_null,  // null: 0
  group_rule,    // greedy: a single group; group_limited_greedy: group_score best if top_groups < groups, else best_two
  norm_order     // 1: normalize; null: do not normalize
};

/// A config key and the recipe key with the same meaning.
struct ConfigKey {
  // Name, and alternative names after '|'. A config.json that an export makes has the first name. Family::sections
  // explains names with a dot.
  std::string_view config;
  std::string_view recipe;
  std::string_view usual{};  // value of a missing key, as JSON; "null": `auto` or `none`; empty: the key is required
  Conversion conversion = Conversion::same;
};

/// A config key of which Hexad supports only one value.
struct FixedKey {
  std::string_view config;
  std::string_view value;  // as JSON; a missing key counts as this value, and so does null if the value is not true
};

/// A recipe key that has the same value in every model of a family.
struct Constant {
  std::string_view recipe;
  std::string_view value;  // as JSON
};

/// Config keys that determine which blocks have experts.
enum class LayerPattern : uint8_t {
  none,           // dense models
  all,            // every block has experts
  sparse_step,    // decoder_sparse_step, mlp_only_layers
  first_dense,    // first_k_dense_replace
  start_and_end,  // moe_layer_start_index, moe_layer_end_index, moe_layer_interval
  interleaved     // moe_layers, interleave_moe_layer_step
};

/// Rearrangement of elements between a foreign tensor and Hexad's parameters.
enum class Rearrangement : uint8_t {
  none,
  transposed,      // the foreign tensor is [in, out]
  pairs,           // rows of each head rotate as pairs (2i, 2i + 1); Hexad rotates rows i and i + half
  latent_queries,  // this and the next two: rows of the projections of latent attention; see LatentRows
  latent_down,
  latent_up,
  gated_queries,  // for each head: its queries, then its gates
  delta_inputs,   // for each key head of a delta net: its queries and keys, then values and gates of its value heads
  delta_gates,    // for each key head of a delta net: write logits of its value heads, then their decay logits
  // The following rearrangements work on each expert separately:
  input_first,                  // the matrix of an expert is [in, out]
  interleaved,                  // rows 2i and 2i + 1 of an expert are row i of the gate and row i of the up projection
  interleaved_and_input_first,  // columns 2i and 2i + 1 of an expert's matrix [in, 2 out] are row i of gate and of up
  stacked_input_first           // like input_first, but the foreign tensor merges its first two dimensions
};

/// A part of a Hexad parameter. `at` lists the leading indices of the part: numbers, or E for the number of the expert.
/// The index * selects one part for each expert, in the order of the experts.
struct Target {
  std::string_view name;
  std::string_view at{};
};

/// Mapping of one foreign tensor to Hexad's parameters. In names, {L} is the number of a block and {E} the number of an
/// expert. Prediction blocks follow the layers: the parameters of block model.layers + k are called "layers.{L}" here,
/// and "prediction.k" in a checkpoint.
///
/// `shape` has one word for each dimension. A word is a digit, letters of Sizes, or both; their product is the size.
/// "E 2I H" is [experts, 2 x expert_hidden, hidden]. After the rearrangement, the foreign tensor is the concatenation
/// of its targets. The mapping applies if all conditions in `when` hold (Sizes::hold); an empty `when` always holds.
struct TensorRow {
  std::string_view theirs;
  std::string_view shape;
  Target ours[4];  // unused entries have an empty name
  std::string_view when{};
  Rearrangement rearrangement = Rearrangement::none;
};

/// A parameter or state tensor of Hexad.
struct OwnRow {
  std::string_view name;
  std::string_view shape;
  std::string_view when{};
  bool state = false;
};

struct Family {
  std::string_view model_type;    // as in config.json
  std::string_view architecture;  // name of the Hugging Face class for language models
  std::vector<std::span<const TensorRow>> names;
  std::vector<std::span<const ConfigKey>> keys;
  std::vector<FixedKey> fixed;
  std::vector<Constant> constants;
  std::vector<std::string_view> neutral;   // config keys besides neutral_keys() that do not change what Hexad computes
  std::vector<std::string_view> training;  // config keys that affect training and are not imported
  std::vector<std::string_view> ignored;  // names of tensors that are not read; * matches any text, {N} the number of a
                                          // prediction block
  std::vector<FixedKey> tolerated{};      // fixed keys that some released configs have, but new configs do not
  std::span<const TensorRow> copies{};    // tensors that repeat a tensor of `names` with the same target; an import
                                          // only compares them, an export writes them
  // model_type of a larger model, such as one with a vision encoder, that has this model as its text_config; empty:
  // none.
  std::string_view larger{};
  // Names of the tensors of this larger model outside its text model; * matches any text.
  std::vector<std::string_view> other_parts{};
  // Keys of config.json whose values are objects with keys of their own. All tables name such a key SECTION.KEY.
  std::vector<std::string_view> sections{};
  // Second key for the base of the rotary frequencies; empty: only rope_theta. Exports write both keys.
  std::string_view theta_key{};
  LayerPattern pattern = LayerPattern::none;
  // Base of the rotary frequencies if config.json has none; 0: the family has no rotary positions.
  double rotary_theta = 10000;
  double rotary_share = 1;      // share of each head that rotates if config.json does not give it
  bool pairs = false;           // true if each rotary pair consists of neighbouring elements
  bool windows = false;         // true if layer_types may name blocks with sliding windows
  bool llama4 = false;          // true if the config has the keys of read_llama4()
  bool delta_nets = false;      // true if layer_types names blocks with delta nets
  bool mxfp4 = false;           // true if experts may be stored in MXFP4
  bool scaled_rotary = false;   // true if config.json must name the scaling of rotary frequencies
  bool partial_rotary = false;  // true if partial_rotary_factor may be below 1
  bool longrope = false;        // true if LongRoPE takes its magnitudes from short_mscale and long_mscale
  bool fused_experts = false;   // true if released models have one tensor for all experts of a block; exports then
                                // have the same format
  bool mrope = false;           // true if rotary keys may divide positions among time, height and width of images
};

/// Returns all families, in the order of the documentation.
std::span<const Family> families();
/// Returns the family of a model_type. Throws Error(data) if there is no such family. The message begins with `where`
/// and lists the families.
const Family& find_family(std::string_view model_type, const std::string& where);

/// Returns Hexad's parameters and states that a foreign checkpoint can hold.
std::span<const OwnRow> own_rows();

/// Returns the config keys, common to all families and all sections, that do not change what a model computes.
std::span<const std::string_view> neutral_keys();
/// Returns the config keys, common to all families and all sections, of which Hexad supports only one value.
std::span<const FixedKey> fixed_keys();

// Tables of tensor names, one for each naming scheme:

std::span<const TensorRow> llama_names();          // everything except experts, for most families
std::span<const TensorRow> latent_names();         // everything except experts, for latent attention
std::span<const TensorRow> delta_net_names();      // everything except experts, for delta nets and gated attention, but
                                                   // not the inputs of the delta nets
std::span<const TensorRow> fused_delta_names();    // in_proj_qkvz and in_proj_ba
std::span<const TensorRow> parted_delta_names();   // in_proj_qkv, in_proj_z, in_proj_b and in_proj_a
std::span<const TensorRow> expert_names();         // mlp.experts.E.gate_proj, or fused mlp.experts.gate_up_proj
std::span<const TensorRow> block_sparse_names();   // block_sparse_moe.experts.E.w1
std::span<const TensorRow> shared_expert_names();  // mlp.shared_experts
std::span<const TensorRow> gated_shared_names();   // mlp.shared_expert with a gate
std::span<const TensorRow> gate_bias_names();      // mlp.gate.e_score_correction_bias
std::span<const TensorRow> statics_bias_names();   // mlp.moe_statics.e_score_correction_bias
std::span<const TensorRow> block_bias_names();     // block_sparse_moe.e_score_correction_bias
std::span<const TensorRow> prediction_names();     // enorm, hnorm, eh_proj, shared_head.norm of prediction blocks
std::span<const TensorRow> prediction_copies();    // embedding and head, which each prediction block stores again
std::span<const TensorRow> gpt_oss_names();  // mlp.router, fused experts with biases, stored as [in, out] or in MXFP4
std::span<const TensorRow> gpt2_names();
std::span<const TensorRow> llama4_names();  // all tensors of Llama 4, with feed_forward
std::span<const TensorRow> arctic_names();  // everything except experts of Arctic, with residual_mlp
std::span<const TensorRow> phimoe_names();  // biases of norms and of the head
std::span<const TensorRow> dbrx_names();    // norm_attn_norm, one tensor for queries, keys and values, stacked experts

}  // namespace hexad::interop
