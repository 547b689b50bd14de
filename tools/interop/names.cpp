// Tables of tensor names. TensorRow describes their form.
#include "tools/interop/family.h"

namespace hexad::interop {

namespace {

using enum Rearrangement;

// Letters in shapes:
// - All models: V vocabulary, P positions, H hidden size, D width of a dense MLP.
// - Attention: G heads, C head size, Q = heads * C, K = kv_heads * C, B = Q + 2 * K.
// - Experts: E experts, I width of an expert, S width of the shared experts.
// - Latent attention: A rank of queries, L rank of keys and values, R size of the rotary part, T = L + R,
//   N = heads * size of the other part, W = heads * value size, U = N + W.
// - Delta nets: F size of a key head, J = key heads * F, O value heads, Z size of a value head, M = O * Z,
//   X = 2 * J + M, x = X + M, Y taps of the convolutions.
constexpr OwnRow own_table[] = {
    {"embedding.weight", "V H"},
    {"position_embedding.weight", "P H", "learned"},
    {"layers.{L}.attention_norm.weight", "H"},
    {"layers.{L}.attention_norm.bias", "H", "norm_bias"},
    {"layers.{L}.attention.q.weight", "Q H", "attends direct"},
    {"layers.{L}.attention.k.weight", "K H", "attends grouped"},
    {"layers.{L}.attention.v.weight", "K H", "attends grouped"},
    {"layers.{L}.attention.output.weight", "H Q", "attends grouped"},
    {"layers.{L}.attention.gate.weight", "Q H", "attends grouped attention_gate"},
    {"layers.{L}.attention.gate.bias", "Q", "attends grouped attention_gate qkv_bias"},
    {"layers.{L}.attention.q_down.weight", "A H", "attends compressed"},
    {"layers.{L}.attention.q_norm.weight", "A", "attends compressed"},
    {"layers.{L}.attention.q_up.weight", "Q A", "attends compressed"},
    {"layers.{L}.attention.kv_down.weight", "L H", "attends latent"},
    {"layers.{L}.attention.kv_norm.weight", "L", "attends latent"},
    {"layers.{L}.attention.k_rope.weight", "R H", "attends latent"},
    {"layers.{L}.attention.k_up.weight", "N L", "attends latent"},
    {"layers.{L}.attention.v_up.weight", "W L", "attends latent"},
    {"layers.{L}.attention.output.weight", "H W", "attends latent"},
    {"layers.{L}.attention.q.bias", "Q", "attends qkv_bias"},
    {"layers.{L}.attention.k.bias", "K", "attends qkv_bias"},
    {"layers.{L}.attention.v.bias", "K", "attends qkv_bias"},
    {"layers.{L}.attention.output.bias", "H", "attends o_bias"},
    {"layers.{L}.attention.sinks", "G", "attends sinks"},
    {"layers.{L}.attention.q_norm.weight", "C", "attends norm_of_heads"},
    {"layers.{L}.attention.k_norm.weight", "C", "attends norm_of_heads"},
    {"layers.{L}.attention.q_norm.weight", "Q", "attends norm_over_heads"},
    {"layers.{L}.attention.k_norm.weight", "K", "attends norm_over_heads"},
    {"layers.{L}.delta_net.q.weight", "J H", "delta"},
    {"layers.{L}.delta_net.k.weight", "J H", "delta"},
    {"layers.{L}.delta_net.v.weight", "M H", "delta"},
    {"layers.{L}.delta_net.gate.weight", "M H", "delta"},
    {"layers.{L}.delta_net.decay.weight", "O H", "delta"},
    {"layers.{L}.delta_net.write.weight", "O H", "delta"},
    {"layers.{L}.delta_net.q_conv.weight", "J Y", "delta"},
    {"layers.{L}.delta_net.k_conv.weight", "J Y", "delta"},
    {"layers.{L}.delta_net.v_conv.weight", "M Y", "delta"},
    {"layers.{L}.delta_net.log_rate", "O", "delta"},
    {"layers.{L}.delta_net.shift", "O", "delta"},
    {"layers.{L}.delta_net.norm.weight", "Z", "delta"},
    {"layers.{L}.delta_net.output.weight", "H M", "delta"},
    {"layers.{L}.mlp_norm.weight", "H", "mlp_norm"},
    {"layers.{L}.mlp_norm.bias", "H", "mlp_norm norm_bias"},
    {"layers.{L}.moe_norm.weight", "H", "moe_norm"},
    {"layers.{L}.moe_norm.bias", "H", "moe_norm norm_bias"},
    {"layers.{L}.mlp.gate_up.weight", "2 D H", "dense gated"},
    {"layers.{L}.mlp.up.weight", "D H", "dense plain"},
    {"layers.{L}.mlp.up.bias", "D", "dense plain bias"},
    {"layers.{L}.mlp.down.weight", "H D", "dense"},
    {"layers.{L}.mlp.down.bias", "H", "dense bias"},
    {"layers.{L}.moe.router.weight", "E H", "moe"},
    {"layers.{L}.moe.router.bias", "E", "moe selection_bias", true},
    {"layers.{L}.moe.router.logit_bias", "E", "moe router_bias"},
    {"layers.{L}.moe.experts.gate_up.weight", "E 2 I H", "moe"},
    {"layers.{L}.moe.experts.down.weight", "E H I", "moe"},
    {"layers.{L}.moe.experts.gate_up.bias", "E 2 I", "moe expert_bias"},
    {"layers.{L}.moe.experts.down.bias", "E H", "moe expert_bias"},
    {"layers.{L}.moe.shared.gate_up.weight", "2 S H", "moe shared"},
    {"layers.{L}.moe.shared.down.weight", "H S", "moe shared"},
    {"layers.{L}.moe.shared_gate.weight", "1 H", "moe shared shared_gate"},
    {"layers.{L}.token_norm.weight", "H", "further"},
    {"layers.{L}.token_norm.bias", "H", "further norm_bias"},
    {"layers.{L}.hidden_norm.weight", "H", "further"},
    {"layers.{L}.hidden_norm.bias", "H", "further norm_bias"},
    {"layers.{L}.projection.weight", "H 2H", "further"},
    {"layers.{L}.norm.weight", "H", "further"},
    {"layers.{L}.norm.bias", "H", "further norm_bias"},
    {"norm.weight", "H"},
    {"norm.bias", "H", "norm_bias"},
    {"head.weight", "V H", "untied"},
    {"head.bias", "V", "head_bias"},
};

constexpr TensorRow llama[] = {
    {"model.embed_tokens.weight", "V H", {{"embedding.weight"}}},
    {"model.layers.{L}.input_layernorm.weight", "H", {{"layers.{L}.attention_norm.weight"}}},
    {"model.layers.{L}.self_attn.q_proj.weight", "Q H", {{"layers.{L}.attention.q.weight"}}, "halves"},
    {"model.layers.{L}.self_attn.k_proj.weight", "K H", {{"layers.{L}.attention.k.weight"}}, "halves"},
    {"model.layers.{L}.self_attn.q_proj.weight", "Q H", {{"layers.{L}.attention.q.weight"}}, "pairs", pairs},
    {"model.layers.{L}.self_attn.k_proj.weight", "K H", {{"layers.{L}.attention.k.weight"}}, "pairs", pairs},
    {"model.layers.{L}.self_attn.v_proj.weight", "K H", {{"layers.{L}.attention.v.weight"}}},
    {"model.layers.{L}.self_attn.o_proj.weight", "H Q", {{"layers.{L}.attention.output.weight"}}},
    {"model.layers.{L}.self_attn.q_proj.bias", "Q", {{"layers.{L}.attention.q.bias"}}, "qkv_bias halves"},
    {"model.layers.{L}.self_attn.k_proj.bias", "K", {{"layers.{L}.attention.k.bias"}}, "qkv_bias halves"},
    {"model.layers.{L}.self_attn.q_proj.bias", "Q", {{"layers.{L}.attention.q.bias"}}, "qkv_bias pairs", pairs},
    {"model.layers.{L}.self_attn.k_proj.bias", "K", {{"layers.{L}.attention.k.bias"}}, "qkv_bias pairs", pairs},
    {"model.layers.{L}.self_attn.v_proj.bias", "K", {{"layers.{L}.attention.v.bias"}}, "qkv_bias"},
    {"model.layers.{L}.self_attn.o_proj.bias", "H", {{"layers.{L}.attention.output.bias"}}, "o_bias"},
    {"model.layers.{L}.self_attn.q_norm.weight", "C", {{"layers.{L}.attention.q_norm.weight"}}, "norm_of_heads"},
    {"model.layers.{L}.self_attn.k_norm.weight", "C", {{"layers.{L}.attention.k_norm.weight"}}, "norm_of_heads"},
    {"model.layers.{L}.self_attn.q_norm.weight", "Q", {{"layers.{L}.attention.q_norm.weight"}}, "norm_over_heads"},
    {"model.layers.{L}.self_attn.k_norm.weight", "K", {{"layers.{L}.attention.k_norm.weight"}}, "norm_over_heads"},
    {"model.layers.{L}.post_attention_layernorm.weight", "H", {{"layers.{L}.mlp_norm.weight"}}},
    {"model.layers.{L}.mlp.gate_proj.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "0"}}, "dense"},
    {"model.layers.{L}.mlp.up_proj.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "1"}}, "dense"},
    {"model.layers.{L}.mlp.down_proj.weight", "H D", {{"layers.{L}.mlp.down.weight"}}, "dense"},
    {"model.norm.weight", "H", {{"norm.weight"}}},
    {"lm_head.weight", "V H", {{"head.weight"}}, "untied"},
};

constexpr TensorRow latent_table[] = {
    {"model.embed_tokens.weight", "V H", {{"embedding.weight"}}},
    {"model.layers.{L}.input_layernorm.weight", "H", {{"layers.{L}.attention_norm.weight"}}},
    {"model.layers.{L}.self_attn.q_proj.weight", "Q H", {{"layers.{L}.attention.q.weight"}}, "direct", latent_queries},
    {"model.layers.{L}.self_attn.q_a_proj.weight", "A H", {{"layers.{L}.attention.q_down.weight"}}, "compressed"},
    {"model.layers.{L}.self_attn.q_a_layernorm.weight", "A", {{"layers.{L}.attention.q_norm.weight"}}, "compressed"},
    {"model.layers.{L}.self_attn.q_b_proj.weight",
     "Q A",
     {{"layers.{L}.attention.q_up.weight"}},
     "compressed",
     latent_queries},
    {"model.layers.{L}.self_attn.kv_a_proj_with_mqa.weight",
     "T H",
     {{"layers.{L}.attention.kv_down.weight"}, {"layers.{L}.attention.k_rope.weight"}},
     "",
     latent_down},
    {"model.layers.{L}.self_attn.kv_a_layernorm.weight", "L", {{"layers.{L}.attention.kv_norm.weight"}}},
    {"model.layers.{L}.self_attn.kv_b_proj.weight",
     "U L",
     {{"layers.{L}.attention.k_up.weight"}, {"layers.{L}.attention.v_up.weight"}},
     "",
     latent_up},
    {"model.layers.{L}.self_attn.o_proj.weight", "H W", {{"layers.{L}.attention.output.weight"}}},
    {"model.layers.{L}.post_attention_layernorm.weight", "H", {{"layers.{L}.mlp_norm.weight"}}},
    {"model.layers.{L}.mlp.gate_proj.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "0"}}, "dense"},
    {"model.layers.{L}.mlp.up_proj.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "1"}}, "dense"},
    {"model.layers.{L}.mlp.down_proj.weight", "H D", {{"layers.{L}.mlp.down.weight"}}, "dense"},
    {"model.norm.weight", "H", {{"norm.weight"}}},
    {"lm_head.weight", "V H", {{"head.weight"}}, "untied"},
};

// Everything of a model whose blocks have delta nets or gated attention, except experts and the inputs of delta nets.
constexpr TensorRow delta_net[] = {
    {"model.embed_tokens.weight", "V H", {{"embedding.weight"}}},
    {"model.layers.{L}.input_layernorm.weight", "H", {{"layers.{L}.attention_norm.weight"}}},
    {"model.layers.{L}.self_attn.q_proj.weight",
     "2Q H",
     {{"layers.{L}.attention.q.weight"}, {"layers.{L}.attention.gate.weight"}},
     "attends",
     gated_queries},
    {"model.layers.{L}.self_attn.k_proj.weight", "K H", {{"layers.{L}.attention.k.weight"}}, "attends"},
    {"model.layers.{L}.self_attn.v_proj.weight", "K H", {{"layers.{L}.attention.v.weight"}}, "attends"},
    {"model.layers.{L}.self_attn.o_proj.weight", "H Q", {{"layers.{L}.attention.output.weight"}}, "attends"},
    {"model.layers.{L}.self_attn.q_proj.bias",
     "2Q",
     {{"layers.{L}.attention.q.bias"}, {"layers.{L}.attention.gate.bias"}},
     "attends qkv_bias",
     gated_queries},
    {"model.layers.{L}.self_attn.k_proj.bias", "K", {{"layers.{L}.attention.k.bias"}}, "attends qkv_bias"},
    {"model.layers.{L}.self_attn.v_proj.bias", "K", {{"layers.{L}.attention.v.bias"}}, "attends qkv_bias"},
    {"model.layers.{L}.self_attn.o_proj.bias", "H", {{"layers.{L}.attention.output.bias"}}, "attends o_bias"},
    {"model.layers.{L}.self_attn.q_norm.weight", "C", {{"layers.{L}.attention.q_norm.weight"}}, "attends"},
    {"model.layers.{L}.self_attn.k_norm.weight", "C", {{"layers.{L}.attention.k_norm.weight"}}, "attends"},
    {"model.layers.{L}.linear_attn.conv1d.weight",
     "X 1 Y",
     {{"layers.{L}.delta_net.q_conv.weight"},
      {"layers.{L}.delta_net.k_conv.weight"},
      {"layers.{L}.delta_net.v_conv.weight"}},
     "delta"},
    {"model.layers.{L}.linear_attn.A_log", "O", {{"layers.{L}.delta_net.log_rate"}}, "delta"},
    {"model.layers.{L}.linear_attn.dt_bias", "O", {{"layers.{L}.delta_net.shift"}}, "delta"},
    {"model.layers.{L}.linear_attn.norm.weight", "Z", {{"layers.{L}.delta_net.norm.weight"}}, "delta"},
    {"model.layers.{L}.linear_attn.out_proj.weight", "H M", {{"layers.{L}.delta_net.output.weight"}}, "delta"},
    {"model.layers.{L}.post_attention_layernorm.weight", "H", {{"layers.{L}.mlp_norm.weight"}}},
    {"model.layers.{L}.mlp.gate_proj.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "0"}}, "dense"},
    {"model.layers.{L}.mlp.up_proj.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "1"}}, "dense"},
    {"model.layers.{L}.mlp.down_proj.weight", "H D", {{"layers.{L}.mlp.down.weight"}}, "dense"},
    {"model.norm.weight", "H", {{"norm.weight"}}},
    {"lm_head.weight", "V H", {{"head.weight"}}, "untied"},
};

// Inputs of delta nets, grouped by key head.
constexpr TensorRow fused_delta[] = {
    {"model.layers.{L}.linear_attn.in_proj_qkvz.weight",
     "x H",
     {{"layers.{L}.delta_net.q.weight"},
      {"layers.{L}.delta_net.k.weight"},
      {"layers.{L}.delta_net.v.weight"},
      {"layers.{L}.delta_net.gate.weight"}},
     "delta",
     delta_inputs},
    {"model.layers.{L}.linear_attn.in_proj_ba.weight",
     "2O H",
     {{"layers.{L}.delta_net.write.weight"}, {"layers.{L}.delta_net.decay.weight"}},
     "delta",
     delta_gates},
};

constexpr TensorRow parted_delta[] = {
    {"model.layers.{L}.linear_attn.in_proj_qkv.weight",
     "X H",
     {{"layers.{L}.delta_net.q.weight"}, {"layers.{L}.delta_net.k.weight"}, {"layers.{L}.delta_net.v.weight"}},
     "delta"},
    {"model.layers.{L}.linear_attn.in_proj_z.weight", "M H", {{"layers.{L}.delta_net.gate.weight"}}, "delta"},
    {"model.layers.{L}.linear_attn.in_proj_b.weight", "O H", {{"layers.{L}.delta_net.write.weight"}}, "delta"},
    {"model.layers.{L}.linear_attn.in_proj_a.weight", "O H", {{"layers.{L}.delta_net.decay.weight"}}, "delta"},
};

constexpr TensorRow experts[] = {
    {"model.layers.{L}.mlp.gate.weight", "E H", {{"layers.{L}.moe.router.weight"}}, "moe"},
    {"model.layers.{L}.mlp.experts.{E}.gate_proj.weight",
     "I H",
     {{"layers.{L}.moe.experts.gate_up.weight", "E 0"}},
     "moe separate"},
    {"model.layers.{L}.mlp.experts.{E}.up_proj.weight",
     "I H",
     {{"layers.{L}.moe.experts.gate_up.weight", "E 1"}},
     "moe separate"},
    {"model.layers.{L}.mlp.experts.{E}.down_proj.weight",
     "H I",
     {{"layers.{L}.moe.experts.down.weight", "E"}},
     "moe separate"},
    {"model.layers.{L}.mlp.experts.gate_up_proj", "E 2I H", {{"layers.{L}.moe.experts.gate_up.weight"}}, "moe fused"},
    {"model.layers.{L}.mlp.experts.down_proj", "E H I", {{"layers.{L}.moe.experts.down.weight"}}, "moe fused"},
};

constexpr TensorRow block_sparse[] = {
    {"model.layers.{L}.block_sparse_moe.gate.weight", "E H", {{"layers.{L}.moe.router.weight"}}, "moe separate"},
    {"model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight",
     "I H",
     {{"layers.{L}.moe.experts.gate_up.weight", "E 0"}},
     "moe separate"},
    {"model.layers.{L}.block_sparse_moe.experts.{E}.w3.weight",
     "I H",
     {{"layers.{L}.moe.experts.gate_up.weight", "E 1"}},
     "moe separate"},
    {"model.layers.{L}.block_sparse_moe.experts.{E}.w2.weight",
     "H I",
     {{"layers.{L}.moe.experts.down.weight", "E"}},
     "moe separate"},
    {"model.layers.{L}.mlp.gate.weight", "E H", {{"layers.{L}.moe.router.weight"}}, "moe fused"},
    {"model.layers.{L}.mlp.experts.gate_up_proj", "E 2I H", {{"layers.{L}.moe.experts.gate_up.weight"}}, "moe fused"},
    {"model.layers.{L}.mlp.experts.down_proj", "E H I", {{"layers.{L}.moe.experts.down.weight"}}, "moe fused"},
};

constexpr TensorRow shared_experts[] = {
    {"model.layers.{L}.mlp.shared_experts.gate_proj.weight",
     "S H",
     {{"layers.{L}.moe.shared.gate_up.weight", "0"}},
     "moe shared"},
    {"model.layers.{L}.mlp.shared_experts.up_proj.weight",
     "S H",
     {{"layers.{L}.moe.shared.gate_up.weight", "1"}},
     "moe shared"},
    {"model.layers.{L}.mlp.shared_experts.down_proj.weight",
     "H S",
     {{"layers.{L}.moe.shared.down.weight"}},
     "moe shared"},
};

constexpr TensorRow gated_shared[] = {
    {"model.layers.{L}.mlp.shared_expert.gate_proj.weight",
     "S H",
     {{"layers.{L}.moe.shared.gate_up.weight", "0"}},
     "moe shared"},
    {"model.layers.{L}.mlp.shared_expert.up_proj.weight",
     "S H",
     {{"layers.{L}.moe.shared.gate_up.weight", "1"}},
     "moe shared"},
    {"model.layers.{L}.mlp.shared_expert.down_proj.weight",
     "H S",
     {{"layers.{L}.moe.shared.down.weight"}},
     "moe shared"},
    {"model.layers.{L}.mlp.shared_expert_gate.weight",
     "1 H",
     {{"layers.{L}.moe.shared_gate.weight"}},
     "moe shared shared_gate"},
};

constexpr TensorRow gate_bias[] = {
    {"model.layers.{L}.mlp.gate.e_score_correction_bias", "E", {{"layers.{L}.moe.router.bias"}}, "moe selection_bias"},
};

constexpr TensorRow statics_bias[] = {
    {"model.layers.{L}.mlp.moe_statics.e_score_correction_bias",
     "1 E",
     {{"layers.{L}.moe.router.bias"}},
     "moe selection_bias separate"},
    {"model.layers.{L}.mlp.gate.moe_statics.e_score_correction_bias",
     "1 E",
     {{"layers.{L}.moe.router.bias"}},
     "moe selection_bias fused"},
};

constexpr TensorRow block_bias[] = {
    {"model.layers.{L}.block_sparse_moe.e_score_correction_bias",
     "E",
     {{"layers.{L}.moe.router.bias"}},
     "moe selection_bias separate"},
    {"model.layers.{L}.mlp.e_score_correction_bias", "E", {{"layers.{L}.moe.router.bias"}}, "moe selection_bias fused"},
};

// Tensors of prediction blocks that other blocks do not have.
constexpr TensorRow prediction[] = {
    {"model.layers.{L}.enorm.weight", "H", {{"layers.{L}.token_norm.weight"}}, "further"},
    {"model.layers.{L}.hnorm.weight", "H", {{"layers.{L}.hidden_norm.weight"}}, "further"},
    {"model.layers.{L}.eh_proj.weight", "H 2H", {{"layers.{L}.projection.weight"}}, "further"},
    {"model.layers.{L}.shared_head.norm.weight", "H", {{"layers.{L}.norm.weight"}}, "further"},
};

// Copies of the embedding and the head in each prediction block.
constexpr TensorRow copied_for_prediction[] = {
    {"model.layers.{L}.embed_tokens.weight", "V H", {{"embedding.weight"}}, "further"},
    {"model.layers.{L}.shared_head.head.weight", "V H", {{"head.weight"}}, "further untied"},
    {"model.layers.{L}.shared_head.head.weight", "V H", {{"embedding.weight"}}, "further tied"},
};

// A matrix in MXFP4 has two tensors: NAME_blocks and NAME_scales. A table row has the name of the blocks and the shape
// of the matrix.
constexpr TensorRow gpt_oss_table[] = {
    {"model.layers.{L}.self_attn.sinks", "G", {{"layers.{L}.attention.sinks"}}},
    {"model.layers.{L}.mlp.router.weight", "E H", {{"layers.{L}.moe.router.weight"}}},
    {"model.layers.{L}.mlp.router.bias", "E", {{"layers.{L}.moe.router.logit_bias"}}},
    {"model.layers.{L}.mlp.experts.gate_up_proj",
     "E H 2I",
     {{"layers.{L}.moe.experts.gate_up.weight"}},
     "plain_experts",
     interleaved_and_input_first},
    {"model.layers.{L}.mlp.experts.gate_up_proj_blocks",
     "E 2I H",
     {{"layers.{L}.moe.experts.gate_up.weight"}},
     "mxfp4",
     interleaved},
    {"model.layers.{L}.mlp.experts.gate_up_proj_bias",
     "E 2I",
     {{"layers.{L}.moe.experts.gate_up.bias"}},
     "",
     interleaved},
    {"model.layers.{L}.mlp.experts.down_proj",
     "E I H",
     {{"layers.{L}.moe.experts.down.weight"}},
     "plain_experts",
     input_first},
    {"model.layers.{L}.mlp.experts.down_proj_blocks", "E H I", {{"layers.{L}.moe.experts.down.weight"}}, "mxfp4"},
    {"model.layers.{L}.mlp.experts.down_proj_bias", "E H", {{"layers.{L}.moe.experts.down.bias"}}},
};

constexpr TensorRow gpt2_table[] = {
    {"transformer.wte.weight", "V H", {{"embedding.weight"}}},
    {"transformer.wpe.weight", "P H", {{"position_embedding.weight"}}},
    {"transformer.h.{L}.ln_1.weight", "H", {{"layers.{L}.attention_norm.weight"}}},
    {"transformer.h.{L}.ln_1.bias", "H", {{"layers.{L}.attention_norm.bias"}}},
    {"transformer.h.{L}.attn.c_attn.weight",
     "H 3H",
     {{"layers.{L}.attention.q.weight"}, {"layers.{L}.attention.k.weight"}, {"layers.{L}.attention.v.weight"}},
     "",
     transposed},
    {"transformer.h.{L}.attn.c_attn.bias",
     "3H",
     {{"layers.{L}.attention.q.bias"}, {"layers.{L}.attention.k.bias"}, {"layers.{L}.attention.v.bias"}}},
    {"transformer.h.{L}.attn.c_proj.weight", "H H", {{"layers.{L}.attention.output.weight"}}, "", transposed},
    {"transformer.h.{L}.attn.c_proj.bias", "H", {{"layers.{L}.attention.output.bias"}}},
    {"transformer.h.{L}.ln_2.weight", "H", {{"layers.{L}.mlp_norm.weight"}}},
    {"transformer.h.{L}.ln_2.bias", "H", {{"layers.{L}.mlp_norm.bias"}}},
    {"transformer.h.{L}.mlp.c_fc.weight", "H D", {{"layers.{L}.mlp.up.weight"}}, "", transposed},
    {"transformer.h.{L}.mlp.c_fc.bias", "D", {{"layers.{L}.mlp.up.bias"}}},
    {"transformer.h.{L}.mlp.c_proj.weight", "D H", {{"layers.{L}.mlp.down.weight"}}, "", transposed},
    {"transformer.h.{L}.mlp.c_proj.bias", "H", {{"layers.{L}.mlp.down.bias"}}},
    {"transformer.ln_f.weight", "H", {{"norm.weight"}}},
    {"transformer.ln_f.bias", "H", {{"norm.bias"}}},
    {"lm_head.weight", "V H", {{"head.weight"}}, "untied"},
};

constexpr TensorRow llama4_table[] = {
    {"model.embed_tokens.weight", "V H", {{"embedding.weight"}}},
    {"model.layers.{L}.input_layernorm.weight", "H", {{"layers.{L}.attention_norm.weight"}}},
    {"model.layers.{L}.self_attn.q_proj.weight", "Q H", {{"layers.{L}.attention.q.weight"}}, "", pairs},
    {"model.layers.{L}.self_attn.k_proj.weight", "K H", {{"layers.{L}.attention.k.weight"}}, "", pairs},
    {"model.layers.{L}.self_attn.v_proj.weight", "K H", {{"layers.{L}.attention.v.weight"}}},
    {"model.layers.{L}.self_attn.o_proj.weight", "H Q", {{"layers.{L}.attention.output.weight"}}},
    {"model.layers.{L}.self_attn.q_proj.bias", "Q", {{"layers.{L}.attention.q.bias"}}, "qkv_bias", pairs},
    {"model.layers.{L}.self_attn.k_proj.bias", "K", {{"layers.{L}.attention.k.bias"}}, "qkv_bias", pairs},
    {"model.layers.{L}.self_attn.v_proj.bias", "K", {{"layers.{L}.attention.v.bias"}}, "qkv_bias"},
    {"model.layers.{L}.self_attn.o_proj.bias", "H", {{"layers.{L}.attention.output.bias"}}, "o_bias"},
    {"model.layers.{L}.post_attention_layernorm.weight", "H", {{"layers.{L}.mlp_norm.weight"}}},
    {"model.layers.{L}.feed_forward.gate_proj.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "0"}}, "dense"},
    {"model.layers.{L}.feed_forward.up_proj.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "1"}}, "dense"},
    {"model.layers.{L}.feed_forward.down_proj.weight", "H D", {{"layers.{L}.mlp.down.weight"}}, "dense"},
    {"model.layers.{L}.feed_forward.router.weight", "E H", {{"layers.{L}.moe.router.weight"}}, "moe"},
    {"model.layers.{L}.feed_forward.experts.gate_up_proj",
     "E H 2I",
     {{"layers.{L}.moe.experts.gate_up.weight"}},
     "moe",
     input_first},
    {"model.layers.{L}.feed_forward.experts.down_proj",
     "E I H",
     {{"layers.{L}.moe.experts.down.weight"}},
     "moe",
     input_first},
    {"model.layers.{L}.feed_forward.shared_expert.gate_proj.weight",
     "S H",
     {{"layers.{L}.moe.shared.gate_up.weight", "0"}},
     "moe"},
    {"model.layers.{L}.feed_forward.shared_expert.up_proj.weight",
     "S H",
     {{"layers.{L}.moe.shared.gate_up.weight", "1"}},
     "moe"},
    {"model.layers.{L}.feed_forward.shared_expert.down_proj.weight",
     "H S",
     {{"layers.{L}.moe.shared.down.weight"}},
     "moe"},
    {"model.norm.weight", "H", {{"norm.weight"}}},
    {"lm_head.weight", "V H", {{"head.weight"}}, "untied"},
};

// Everything except experts of a model whose experts read the input of their block.
constexpr TensorRow arctic_table[] = {
    {"model.embed_tokens.weight", "V H", {{"embedding.weight"}}},
    {"model.layers.{L}.input_layernorm.weight", "H", {{"layers.{L}.attention_norm.weight"}}},
    {"model.layers.{L}.self_attn.q_proj.weight", "Q H", {{"layers.{L}.attention.q.weight"}}},
    {"model.layers.{L}.self_attn.k_proj.weight", "K H", {{"layers.{L}.attention.k.weight"}}},
    {"model.layers.{L}.self_attn.v_proj.weight", "K H", {{"layers.{L}.attention.v.weight"}}},
    {"model.layers.{L}.self_attn.o_proj.weight", "H Q", {{"layers.{L}.attention.output.weight"}}},
    {"model.layers.{L}.post_attention_layernorm.weight", "H", {{"layers.{L}.moe_norm.weight"}}},
    {"model.layers.{L}.residual_layernorm.weight", "H", {{"layers.{L}.mlp_norm.weight"}}},
    {"model.layers.{L}.residual_mlp.w1.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "0"}}},
    {"model.layers.{L}.residual_mlp.w3.weight", "D H", {{"layers.{L}.mlp.gate_up.weight", "1"}}},
    {"model.layers.{L}.residual_mlp.w2.weight", "H D", {{"layers.{L}.mlp.down.weight"}}},
    {"model.norm.weight", "H", {{"norm.weight"}}},
    {"lm_head.weight", "V H", {{"head.weight"}}, "untied"},
};

// Biases of norms and of the head.
constexpr TensorRow phimoe_table[] = {
    {"model.layers.{L}.input_layernorm.bias", "H", {{"layers.{L}.attention_norm.bias"}}},
    {"model.layers.{L}.post_attention_layernorm.bias", "H", {{"layers.{L}.mlp_norm.bias"}}},
    {"model.norm.bias", "H", {{"norm.bias"}}},
    {"lm_head.bias", "V", {{"head.bias"}}, "head_bias"},
};

constexpr TensorRow dbrx_table[] = {
    {"transformer.wte.weight", "V H", {{"embedding.weight"}}},
    {"transformer.blocks.{L}.norm_attn_norm.norm_1.weight", "H", {{"layers.{L}.attention_norm.weight"}}},
    {"transformer.blocks.{L}.norm_attn_norm.attn.Wqkv.weight",
     "B H",
     {{"layers.{L}.attention.q.weight"}, {"layers.{L}.attention.k.weight"}, {"layers.{L}.attention.v.weight"}}},
    {"transformer.blocks.{L}.norm_attn_norm.attn.out_proj.weight", "H Q", {{"layers.{L}.attention.output.weight"}}},
    {"transformer.blocks.{L}.norm_attn_norm.norm_2.weight", "H", {{"layers.{L}.mlp_norm.weight"}}},
    {"transformer.blocks.{L}.ffn.router.layer.weight", "E H", {{"layers.{L}.moe.router.weight"}}},
    {"transformer.blocks.{L}.ffn.experts.mlp.w1", "EI H", {{"layers.{L}.moe.experts.gate_up.weight", "* 0"}}},
    {"transformer.blocks.{L}.ffn.experts.mlp.v1", "EI H", {{"layers.{L}.moe.experts.gate_up.weight", "* 1"}}},
    {"transformer.blocks.{L}.ffn.experts.mlp.w2",
     "EI H",
     {{"layers.{L}.moe.experts.down.weight"}},
     "",
     stacked_input_first},
    {"transformer.norm_f.weight", "H", {{"norm.weight"}}},
    {"lm_head.weight", "V H", {{"head.weight"}}, "untied"},
};

}  // namespace

std::span<const OwnRow> own_rows() { return own_table; }
std::span<const TensorRow> llama_names() { return llama; }
std::span<const TensorRow> latent_names() { return latent_table; }
std::span<const TensorRow> delta_net_names() { return delta_net; }
std::span<const TensorRow> fused_delta_names() { return fused_delta; }
std::span<const TensorRow> parted_delta_names() { return parted_delta; }
std::span<const TensorRow> expert_names() { return experts; }
std::span<const TensorRow> block_sparse_names() { return block_sparse; }
std::span<const TensorRow> shared_expert_names() { return shared_experts; }
std::span<const TensorRow> gated_shared_names() { return gated_shared; }
std::span<const TensorRow> gate_bias_names() { return gate_bias; }
std::span<const TensorRow> statics_bias_names() { return statics_bias; }
std::span<const TensorRow> block_bias_names() { return block_bias; }
std::span<const TensorRow> prediction_names() { return prediction; }
std::span<const TensorRow> prediction_copies() { return copied_for_prediction; }
std::span<const TensorRow> gpt_oss_names() { return gpt_oss_table; }
std::span<const TensorRow> gpt2_names() { return gpt2_table; }
std::span<const TensorRow> dbrx_names() { return dbrx_table; }
std::span<const TensorRow> llama4_names() { return llama4_table; }
std::span<const TensorRow> arctic_names() { return arctic_table; }
std::span<const TensorRow> phimoe_names() { return phimoe_table; }

}  // namespace hexad::interop
