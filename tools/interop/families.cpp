#include "tools/interop/family.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/config/words.h"

namespace hexad::interop {

using namespace base;

namespace {

using enum Conversion;

// Keys of all families except GPT-2 and DBRX.
constexpr ConfigKey common[] = {
    {"vocab_size", "model.vocab"},
    {"hidden_size", "model.hidden"},
    {"num_hidden_layers", "model.layers"},
    {"num_attention_heads", "model.heads"},
    {"num_key_value_heads", "model.kv_heads", "null"},
    {"max_position_embeddings", "model.context"},
    {"initializer_range", "model.init_std", "0.02"},
};
constexpr ConfigKey tied[] = {{"tie_word_embeddings", "model.tied_embedding", "true"}};
constexpr ConfigKey untied[] = {{"tie_word_embeddings", "model.tied_embedding", "false"}};
constexpr ConfigKey small_eps[] = {{"rms_norm_eps", "model.norm_eps", "1e-6"}};
constexpr ConfigKey large_eps[] = {{"rms_norm_eps", "model.norm_eps", "1e-5"}};
constexpr ConfigKey head_of_any_size[] = {{"head_dim", "model.head_size", "null"}};
constexpr ConfigKey head_of_128[] = {{"head_dim", "model.head_size", "128"}};
constexpr ConfigKey all_biases[] = {{"attention_bias", "model.qkv_bias", "false"},
                                    {"attention_bias", "model.o_bias", "false"}};
constexpr ConfigKey dense_mlp[] = {{"intermediate_size", "model.mlp_hidden"}};
// Keys of most families with experts.
constexpr ConfigKey routing[] = {
    {"num_experts_per_tok|moe_k", "model.moe.top_k"},
    {"router_aux_loss_coef", "model.moe.aux_loss.coefficient", "0"},
};
constexpr ConfigKey renormalized[] = {{"norm_topk_prob", "model.moe.normalize", "false"}};

constexpr ConfigKey qwen_moe[] = {
    {"num_experts|num_local_experts", "model.moe.experts"},
    {"moe_intermediate_size", "model.moe.expert_hidden"},
};
constexpr ConfigKey qwen2_moe[] = {
    {"qkv_bias", "model.qkv_bias", "true"},
    {"shared_expert_intermediate_size", "model.moe.shared_hidden"},
};
constexpr ConfigKey renormalized_usually[] = {{"norm_topk_prob", "model.moe.normalize", "true"}};
constexpr ConfigKey shared_of_512[] = {{"shared_expert_intermediate_size", "model.moe.shared_hidden", "512"}};
constexpr ConfigKey gated_delta[] = {
    {"head_dim", "model.head_size", "256"},
    {"linear_num_value_heads", "model.delta_net.heads", "32"},
    {"linear_num_key_heads", "model.delta_net.key_heads", "16"},
    {"linear_key_head_dim", "model.delta_net.key_size", "128"},
    {"linear_value_head_dim", "model.delta_net.value_size", "128"},
    {"linear_conv_kernel_dim", "model.delta_net.conv_size", "4"},
    {"rms_norm_eps", "model.delta_net.norm_eps", "1e-6"},
};
constexpr ConfigKey narrow_experts[] = {
    {"num_local_experts|num_experts", "model.moe.experts"},
    {"intermediate_size", "model.moe.expert_hidden"},
};
constexpr ConfigKey clamped[] = {{"clip_qkv", "model.qkv_clip", "null"}};
constexpr ConfigKey ernie[] = {
    {"moe_num_experts|num_experts", "model.moe.experts"},
    {"moe_intermediate_size", "model.moe.expert_hidden"},
    {"moe_num_shared_experts", "model.moe.shared_experts", "2"},
    {"moe_norm_min", "model.moe.normalize_floor", "1e-12"},
};
constexpr ConfigKey glm[] = {
    {"n_routed_experts|num_local_experts", "model.moe.experts"},
    {"moe_intermediate_size", "model.moe.expert_hidden"},
    {"n_shared_experts", "model.moe.shared_experts", "1"},
    {"n_group", "model.moe.groups", "1"},
    {"topk_group", "model.moe.top_groups", "1"},
    {"routed_scaling_factor", "model.moe.scale", "1.0"},
    {"norm_topk_prob", "model.moe.normalize", "true"},
    {"attention_bias", "model.qkv_bias", "false"},
    {"use_qk_norm", "model.qk_norm", "false", head_norm},
    {"num_nextn_predict_layers|num_mtp_layers", "model.prediction_blocks", "0"},
};
// Keys of latent attention, and of the experts in the same families.
constexpr ConfigKey latent_attention[] = {
    {"q_lora_rank", "model.latent.q_rank", "0", zero_if_null},
    {"kv_lora_rank", "model.latent.kv_rank", "512"},
    {"qk_nope_head_dim", "model.latent.nope_size", "128"},
    {"qk_rope_head_dim", "model.latent.rope_size", "64"},
    {"v_head_dim", "model.latent.value_size", "128"},
    {"n_routed_experts|num_local_experts", "model.moe.experts"},
    {"moe_intermediate_size", "model.moe.expert_hidden"},
};
constexpr ConfigKey deepseek_v3[] = {
    {"n_shared_experts", "model.moe.shared_experts", "1"}, {"n_group", "model.moe.groups", "8"},
    {"topk_group", "model.moe.top_groups", "4"},           {"routed_scaling_factor", "model.moe.scale", "2.5"},
    {"norm_topk_prob", "model.moe.normalize", "true"},     {"num_nextn_predict_layers", "model.prediction_blocks", "0"},
};
constexpr ConfigKey deepseek_v2[] = {
    {"n_shared_experts", "model.moe.shared_experts", "2"},
    {"n_group", "model.moe.groups", "1"},
    {"topk_group", "model.moe.top_groups", "1"},
    {"topk_method", "model.moe.group_score", "\"greedy\"", group_rule},
    {"routed_scaling_factor", "model.moe.scale", "1.0"},
};
constexpr ConfigKey minimax[] = {{"rotary_dim", "model.rotary_share", "null", head_share}};
constexpr ConfigKey gpt_oss[] = {
    {"num_local_experts|num_experts", "model.moe.experts"},
    {"intermediate_size", "model.moe.expert_hidden"},
    {"num_experts_per_tok|experts_per_token", "model.moe.top_k"},
    {"router_aux_loss_coef", "model.moe.aux_loss.coefficient", "0.9"},
    {"head_dim", "model.head_size", "64"},
    {"attention_bias", "model.qkv_bias", "true"},
    {"attention_bias", "model.o_bias", "true"},
    {"sliding_window", "model.window", "128"},
    {"swiglu_limit", "model.swiglu_limit", "7.0"},
};
constexpr ConfigKey gpt2[] = {
    {"vocab_size", "model.vocab"},
    {"n_embd|hidden_size", "model.hidden"},
    {"n_layer|num_hidden_layers", "model.layers"},
    {"n_head|num_attention_heads", "model.heads"},
    {"n_positions|max_position_embeddings", "model.context"},
    {"n_inner", "model.mlp_hidden", "null"},
    {"activation_function", "model.gelu", "\"gelu_new\"", gelu_name},
    {"layer_norm_epsilon", "model.norm_eps", "1e-5"},
    {"initializer_range", "model.init_std", "0.02"},
};

constexpr ConfigKey llama4[] = {
    {"intermediate_size_mlp", "model.mlp_hidden", "16384"},
    {"num_local_experts", "model.moe.experts"},
    {"intermediate_size", "model.moe.expert_hidden"},
};
constexpr ConfigKey arctic[] = {
    {"hidden_size", "model.mlp_hidden"},
    {"parallel_attn_mlp_res", "model.moe.dense_residual"},
    {"moe_layer_frequency", "model.moe.every"},
    {"sliding_window", "model.window", "null"},
};
constexpr ConfigKey phimoe[] = {
    {"lm_head_bias", "model.head_bias", "false"},
    {"router_jitter_noise", "model.moe.mixer_jitter", "0.01"},
    {"sliding_window", "model.window", "null"},
};
constexpr ConfigKey dbrx[] = {
    {"vocab_size", "model.vocab"},
    {"d_model|hidden_size|ffn_config.hidden_size", "model.hidden"},
    {"n_layers|num_hidden_layers", "model.layers"},
    {"n_heads|num_attention_heads", "model.heads"},
    {"attn_config.kv_n_heads|num_key_value_heads", "model.kv_heads", "1"},
    {"max_seq_len|max_position_embeddings", "model.context"},
    {"initializer_range", "model.init_std", "0.02"},
    {"attn_config.clip_qkv", "model.qkv_clip", "null"},
    {"ffn_config.moe_num_experts", "model.moe.experts", "4"},
    {"ffn_config.moe_top_k", "model.moe.top_k", "1"},
    {"ffn_config.ffn_hidden_size", "model.moe.expert_hidden", "3584"},
    {"ffn_config.moe_loss_weight|router_aux_loss_coef", "model.moe.aux_loss.coefficient", "0.01"},
    {"ffn_config.moe_normalize_expert_weights", "model.moe.normalize", "1", norm_order},
};

constexpr FixedKey silu{"hidden_act", "\"silu\""};
constexpr FixedKey no_window{"use_sliding_window", "false"};
constexpr FixedKey no_jitter{"router_jitter_noise", "0.0"};
constexpr std::string_view window_keys[] = {"sliding_window", "max_window_layers"};

const std::vector<std::string_view>& dropouts() {
  static const std::vector<std::string_view> all{"attention_dropout"};
  return all;
}

// Returns a family with the attention and routing of DeepSeek-V3.
Family like_deepseek_v3(std::string_view model_type) {
  return {.model_type = model_type,
          .architecture = "DeepseekV3ForCausalLM",
          .names = {latent_names(), expert_names(), shared_expert_names(), gate_bias_names(), prediction_names()},
          .keys = {common, untied, small_eps, dense_mlp, routing, latent_attention, deepseek_v3},
          .fixed = {silu,
                    {"scoring_func", "\"sigmoid\""},
                    {"topk_method", "\"noaux_tc\""},
                    {"attention_bias", "false"},
                    {"rope_interleave", "true"},
                    {"moe_layer_freq", "1"}},
          .constants = {{"model.attention", "\"latent\""},
                        {"model.moe.score", "\"sigmoid\""},
                        {"model.moe.selection_bias", "true"}},
          .neutral = {"head_dim", "qk_head_dim", "pretraining_tp", "ep_size"},
          .training = {"attention_dropout", "aux_loss_alpha", "seq_aux"},
          .ignored = {},
          .copies = prediction_copies(),
          .pattern = LayerPattern::first_dense};
}

std::vector<Family> make_families() {
  const std::vector<std::string_view> windows(std::begin(window_keys), std::end(window_keys));
  std::vector<Family> all;
  all.push_back(
      {.model_type = "qwen3_moe",
       .architecture = "Qwen3MoeForCausalLM",
       .names = {llama_names(), expert_names()},
       .keys = {common, untied, small_eps, head_of_any_size, all_biases, dense_mlp, routing, renormalized, qwen_moe},
       .fixed = {silu, no_window},
       .constants = {{"model.qk_norm", "\"head\""}},
       .neutral = windows,
       .training = dropouts(),
       .ignored = {},
       .tolerated = {{"qkv_bias", "false"}, {"use_qk_norm", "true"}, {"shared_expert_intermediate_size", "0"}},
       .pattern = LayerPattern::sparse_step});
  all.push_back(
      {.model_type = "qwen2_moe",
       .architecture = "Qwen2MoeForCausalLM",
       .names = {llama_names(), expert_names(), gated_shared_names()},
       .keys = {common, untied, small_eps, head_of_any_size, dense_mlp, routing, renormalized, qwen_moe, qwen2_moe},
       .fixed = {silu, no_window},
       .constants = {{"model.o_bias", "false"}, {"model.moe.shared_experts", "1"}, {"model.moe.shared_gate", "true"}},
       .neutral = windows,
       .training = dropouts(),
       .ignored = {},
       .pattern = LayerPattern::sparse_step});
  all.push_back({.model_type = "qwen3_next",
                 .architecture = "Qwen3NextForCausalLM",
                 .names = {delta_net_names(), fused_delta_names(), expert_names(), gated_shared_names()},
                 .keys = {common, untied, small_eps, all_biases, dense_mlp, routing, qwen_moe, renormalized_usually,
                          shared_of_512, gated_delta},
                 .fixed = {silu, no_window},
                 .constants = {{"model.norm", "\"zero_centred_rms_norm\""},
                               {"model.qk_norm", "\"head\""},
                               {"model.attention_gate", "true"},
                               {"model.moe.shared_experts", "1"},
                               {"model.moe.shared_gate", "true"}},
                 .neutral = {"full_attention_interval"},
                 .training = dropouts(),
                 .ignored = {"mtp.*"},
                 .pattern = LayerPattern::sparse_step,
                 .rotary_share = 0.25,
                 .delta_nets = true,
                 .partial_rotary = true});
  all.push_back(
      {.model_type = "qwen3_5_moe_text",
       .architecture = "Qwen3_5MoeForCausalLM",
       .names = {delta_net_names(), parted_delta_names(), expert_names(), gated_shared_names()},
       .keys = {common, untied, small_eps, all_biases, routing, qwen_moe, shared_of_512, gated_delta},
       .fixed = {silu},
       .constants = {{"model.norm", "\"zero_centred_rms_norm\""},
                     {"model.qk_norm", "\"head\""},
                     {"model.attention_gate", "true"},
                     {"model.moe.shared_experts", "1"},
                     {"model.moe.shared_gate", "true"}},
       .neutral = {"full_attention_interval", "intermediate_size", "mtp_use_dedicated_embeddings", "mamba_ssm_dtype"},
       .training = {"attention_dropout", "mtp_num_hidden_layers"},
       .ignored = {"mtp.*"},
       .tolerated = {no_window,
                     {"norm_topk_prob", "true"},
                     {"attn_output_gate", "true"},
                     {"mlp_only_layers", "[]"},
                     {"decoder_sparse_step", "1"}},
       .larger = "qwen3_5_moe",
       .other_parts = {"model.visual.*"},
       .pattern = LayerPattern::all,
       .rotary_share = 0.25,
       .delta_nets = true,
       .partial_rotary = true,
       .fused_experts = true,
       .mrope = true});
  all.push_back({.model_type = "olmoe",
                 .architecture = "OlmoeForCausalLM",
                 .names = {llama_names(), expert_names()},
                 .keys = {common, untied, large_eps, head_of_any_size, all_biases, routing, renormalized,
                          narrow_experts, clamped},
                 .fixed = {silu},
                 .constants = {{"model.qk_norm", "\"all_heads\""}},
                 .neutral = {},
                 .training = dropouts(),
                 .ignored = {},
                 .pattern = LayerPattern::all});
  all.push_back(
      {.model_type = "ernie4_5_moe",
       .architecture = "Ernie4_5_MoeForCausalLM",
       .names = {llama_names(), expert_names(), shared_expert_names(), statics_bias_names()},
       .keys = {common, tied, large_eps, head_of_any_size, dense_mlp, routing, ernie},
       .fixed = {silu,
                 {"use_bias", "false"},
                 {"moe_gate", "\"topk\""},
                 {"moe_use_aux_free", "true"},
                 {"compression_ratio", "1.0"}},
       .constants = {{"model.qkv_bias", "false"}, {"model.o_bias", "false"}, {"model.moe.selection_bias", "true"}},
       .neutral = {"moe_capacity"},
       .training = {"attention_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob",
                    "num_nextn_predict_layers"},
       .ignored = {"model.mtp*"},
       .tolerated = {{"use_rmsnorm", "true"}, {"is_quantized", "false"}},
       .pattern = LayerPattern::start_and_end,
       .rotary_theta = 500000,
       .pairs = true});
  all.push_back({.model_type = "glm4_moe",
                 .architecture = "Glm4MoeForCausalLM",
                 .names = {llama_names(), expert_names(), shared_expert_names(), gate_bias_names(), prediction_names()},
                 .keys = {common, untied, large_eps, head_of_any_size, dense_mlp, routing, glm},
                 .fixed = {silu, {"scoring_func", "\"sigmoid\""}, {"topk_method", "\"noaux_tc\""}},
                 .constants = {{"model.o_bias", "false"},
                               {"model.moe.score", "\"sigmoid\""},
                               {"model.moe.selection_bias", "true"}},
                 .neutral = {},
                 .training = dropouts(),
                 .ignored = {},
                 .copies = prediction_copies(),
                 .pattern = LayerPattern::first_dense,
                 .rotary_share = 0.5,
                 .partial_rotary = true});
  all.push_back(like_deepseek_v3("deepseek_v3"));
  all.push_back(like_deepseek_v3("kimi_k2"));
  all.push_back({.model_type = "deepseek_v2",
                 .architecture = "DeepseekV2ForCausalLM",
                 .names = {latent_names(), expert_names(), shared_expert_names()},
                 .keys = {common, untied, small_eps, dense_mlp, routing, latent_attention, deepseek_v2},
                 .fixed = {silu,
                           {"scoring_func", "\"softmax\""},
                           {"norm_topk_prob", "false"},
                           {"attention_bias", "false"},
                           {"mlp_bias", "false"},
                           {"moe_layer_freq", "1"}},
                 .constants = {{"model.attention", "\"latent\""}, {"model.moe.normalize", "false"}},
                 .neutral = {"head_dim", "qk_head_dim", "pretraining_tp", "ep_size"},
                 .training = {"attention_dropout", "aux_loss_alpha", "seq_aux"},
                 .ignored = {},
                 .pattern = LayerPattern::first_dense});
  all.push_back({.model_type = "mixtral",
                 .architecture = "MixtralForCausalLM",
                 .names = {llama_names(), block_sparse_names()},
                 .keys = {common, untied, large_eps, head_of_any_size, routing, narrow_experts},
                 .fixed = {silu, no_jitter, {"sliding_window", "null"}},
                 .constants = {{"model.qkv_bias", "false"}, {"model.o_bias", "false"}},
                 .neutral = {},
                 .training = dropouts(),
                 .ignored = {},
                 .pattern = LayerPattern::all,
                 .rotary_theta = 1000000});
  all.push_back(
      {.model_type = "minimax_m2",
       .architecture = "MiniMaxM2ForCausalLM",
       .names = {llama_names(), block_sparse_names(), block_bias_names()},
       .keys = {common, untied, small_eps, head_of_128, routing, narrow_experts, minimax},
       .fixed = {silu,
                 no_jitter,
                 {"scoring_func", "\"sigmoid\""},
                 {"use_routing_bias", "true"},
                 {"use_qk_norm", "true"},
                 {"qk_norm_type", "\"per_layer\""},
                 {"shared_intermediate_size", "0"}},
       .constants = {{"model.qkv_bias", "false"},
                     {"model.o_bias", "false"},
                     {"model.qk_norm", "\"all_heads\""},
                     {"model.moe.score", "\"sigmoid\""},
                     {"model.moe.selection_bias", "true"}},
       .neutral = {"attn_type_list", "layernorm_full_attention_beta", "layernorm_linear_attention_beta",
                   "layernorm_mlp_beta", "mlp_intermediate_size", "shared_moe_mode", "mtp_transformer_layers"},
       .training = {"attention_dropout", "num_mtp_modules", "use_mtp"},
       .ignored = {"model.layers.{N}.*", "model.mtp*"},
       .tolerated = {{"attention_bias", "false"}, {"sliding_window", "null"}},
       .pattern = LayerPattern::all,
       .rotary_theta = 5000000,
       .partial_rotary = true});
  all.push_back(
      {.model_type = "gpt_oss",
       .architecture = "GptOssForCausalLM",
       .names = {llama_names(), gpt_oss_names()},
       .keys = {common, untied, large_eps, gpt_oss},
       .fixed = {silu, {"swiglu_alpha", "1.702"}},
       .constants = {{"model.sinks", "true"}, {"model.moe.expert_bias", "true"}, {"model.moe.router_bias", "true"}},
       .neutral = {"initial_context_length"},
       .training = dropouts(),
       .ignored = {},
       .pattern = LayerPattern::all,
       .rotary_theta = 150000,
       .windows = true,
       .mxfp4 = true,
       .scaled_rotary = true});
  all.push_back({.model_type = "llama4_text",
                 .architecture = "Llama4ForCausalLM",
                 .names = {llama4_names()},
                 .keys = {common, untied, large_eps, head_of_128, all_biases, routing, llama4},
                 .fixed = {silu, no_jitter, {"num_experts_per_tok", "1"}},
                 .constants = {{"model.moe.score", "\"sigmoid\""},
                               {"model.moe.normalize", "false"},
                               {"model.moe.weigh", "\"input\""},
                               {"model.moe.shared_experts", "1"}},
                 .neutral = {"for_llm_compressor"},
                 .training = dropouts(),
                 .ignored = {},
                 .larger = "llama4",
                 .other_parts = {"vision_model.*", "multi_modal_projector.*"},
                 .pattern = LayerPattern::interleaved,
                 .rotary_theta = 500000,
                 .pairs = true,
                 .llama4 = true});
  all.push_back({.model_type = "arctic",
                 .architecture = "ArcticForCausalLM",
                 .names = {arctic_names(), block_sparse_names()},
                 .keys = {common, untied, large_eps, routing, narrow_experts, arctic},
                 .fixed = {silu,
                           {"parallel_attn_mlp_res", "true"},
                           {"use_residual", "true"},
                           {"moe_layer_frequency", "1"},
                           {"quantization", "null"}},
                 .constants = {{"model.qkv_bias", "false"},
                               {"model.o_bias", "false"},
                               {"model.moe.input", "\"before_attention\""}},
                 .neutral = {"enc_index", "max_sequence_length", "enable_expert_tensor_parallelism"},
                 .training = {"attention_dropout", "moe_train_capacity_factor", "moe_eval_capacity_factor",
                              "moe_min_capacity", "moe_token_dropping"},
                 .ignored = {},
                 .pattern = LayerPattern::all,
                 .rotary_theta = 1000000});
  all.push_back({.model_type = "phimoe",
                 .architecture = "PhimoeForCausalLM",
                 .names = {llama_names(), block_sparse_names(), phimoe_names()},
                 .keys = {common, untied, large_eps, head_of_any_size, all_biases, routing, narrow_experts, phimoe},
                 .fixed = {silu, {"num_experts_per_tok", "2"}},
                 .constants = {{"model.norm", "\"layer_norm\""},
                               {"model.bias", "true"},
                               {"model.moe.expert_bias", "false"},
                               {"model.moe.router", "\"sparse_mixer\""}},
                 .neutral = {},
                 .training = {"attention_dropout", "hidden_dropout", "input_jitter_noise"},
                 .ignored = {},
                 .pattern = LayerPattern::all,
                 .rotary_theta = 1000000,
                 .longrope = true});
  all.push_back({.model_type = "dbrx",
                 .architecture = "DbrxForCausalLM",
                 .names = {dbrx_names()},
                 .keys = {dbrx, untied},
                 .fixed = {{"ffn_config.ffn_act_fn", R"({"name": "silu"})"}},
                 .constants = {{"model.norm", "\"layer_norm\""},
                               {"model.norm_eps", "1e-5"},
                               {"model.qkv_bias", "false"},
                               {"model.o_bias", "false"}},
                 .neutral = {"attn_config.tie_word_embeddings", "ffn_config.tie_word_embeddings"},
                 .training = {"resid_pdrop", "emb_pdrop", "attn_config.attn_pdrop", "ffn_config.moe_jitter_eps"},
                 .ignored = {},
                 .tolerated = {{"ffn_config.uniform_expert_assignment", "false"}},
                 .sections = {"attn_config", "ffn_config"},
                 .theta_key = "attn_config.rope_theta",
                 .pattern = LayerPattern::all});
  all.push_back({.model_type = "llama",
                 .architecture = "LlamaForCausalLM",
                 .names = {llama_names()},
                 .keys = {common, untied, small_eps, head_of_any_size, all_biases, dense_mlp},
                 .fixed = {silu, {"mlp_bias", "false"}},
                 .constants = {},
                 .neutral = {"pretraining_tp", "max_sequence_length"},
                 .training = dropouts(),
                 .ignored = {}});
  all.push_back({.model_type = "qwen3_5_text",
                 .architecture = "Qwen3_5ForCausalLM",
                 .names = {delta_net_names(), parted_delta_names()},
                 .keys = {common, untied, small_eps, all_biases, dense_mlp, gated_delta},
                 .fixed = {silu},
                 .constants = {{"model.norm", "\"zero_centred_rms_norm\""},
                               {"model.qk_norm", "\"head\""},
                               {"model.attention_gate", "true"}},
                 .neutral = {"full_attention_interval", "mtp_use_dedicated_embeddings", "mamba_ssm_dtype"},
                 .training = {"attention_dropout", "mtp_num_hidden_layers"},
                 .ignored = {"mtp.*"},
                 .tolerated = {no_window, {"attn_output_gate", "true"}},
                 .larger = "qwen3_5",
                 .other_parts = {"model.visual.*"},
                 .rotary_share = 0.25,
                 .delta_nets = true,
                 .partial_rotary = true,
                 .mrope = true});
  all.push_back({.model_type = "qwen3",
                 .architecture = "Qwen3ForCausalLM",
                 .names = {llama_names()},
                 .keys = {common, untied, small_eps, head_of_128, all_biases, dense_mlp},
                 .fixed = {silu, no_window},
                 .constants = {{"model.qk_norm", "\"head\""}},
                 .neutral = windows,
                 .training = dropouts(),
                 .ignored = {}});
  all.push_back({.model_type = "gpt2",
                 .architecture = "GPT2LMHeadModel",
                 .names = {gpt2_names()},
                 .keys = {gpt2, tied},
                 .fixed = {{"scale_attn_weights", "true"}, {"scale_attn_by_inverse_layer_idx", "false"}},
                 .constants = {{"model.norm", "\"layer_norm\""},
                               {"model.position", "\"learned\""},
                               {"model.mlp", "\"gelu\""},
                               {"model.bias", "true"}},
                 .neutral = {"n_ctx", "reorder_and_upcast_attn", "summary_type", "summary_use_proj",
                             "summary_activation", "summary_proj_to_labels", "summary_first_dropout", "output_past"},
                 .training = {"resid_pdrop", "embd_pdrop", "attn_pdrop"},
                 .ignored = {"*.attn.bias", "*.attn.masked_bias"},
                 .rotary_theta = 0});
  return all;
}

constexpr std::string_view neutral[] = {
    "architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "bos_token_id", "eos_token_id",
    "pad_token_id", "sep_token_id", "decoder_start_token_id", "tokenizer_class", "prefix", "finetuning_task",
    "use_cache", "cache_implementation", "output_router_logits", "output_attentions", "output_scores", "return_dict",
    "output_hidden_states", "id2label", "label2id", "problem_type", "_name_or_path", "name_or_path", "auto_map",
    "task_specific_params", "chunk_size_feed_forward", "_attn_implementation", "_attn_implementation_autoset",
    "attn_implementation", "experts_implementation", "is_decoder", "torchscript", "tf_legacy_loss", "use_bfloat16",
    "unsloth_fixed", "unsloth_version",
    // Defaults of generation. Transformers 4 wrote them into every section of a config.json.
    "max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens"};

constexpr FixedKey fixed_in_all[] = {{"is_encoder_decoder", "false"},
                                     {"add_cross_attention", "false"},
                                     {"tie_encoder_decoder", "false"},
                                     {"cross_attention_hidden_size", "null"},
                                     {"pruned_heads", "{}"}};

}  // namespace

std::span<const Family> families() {
  static const std::vector<Family> all = make_families();
  return all;
}

const Family& find_family(std::string_view model_type, const std::string& where) {
  std::vector<std::string_view> names;
  for (const Family& family : families()) {
    if (family.model_type == model_type) return family;
    names.push_back(family.model_type);
  }
  const std::string_view likely = config::closest(model_type, names);
  fail(ExitCode::data, where, ": model_type is '", config::shown(model_type), "', an unknown family",
       likely.empty() ? "" : cat("; did you mean '", likely, "'?"), "; supported families: ", config::join(names));
}

std::span<const std::string_view> neutral_keys() { return neutral; }

std::span<const FixedKey> fixed_keys() { return fixed_in_all; }

}  // namespace hexad::interop
