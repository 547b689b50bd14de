"""Makes small random models of the families that Hexad imports, and the results that `transformers` computes with them.

Usage: models.py FOLDER [FAMILY...]        make models in FOLDER/FAMILY
       models.py --larger FOLDER           make models with a vision encoder in FOLDER/FAMILY
       models.py --load FOLDER REFERENCE   load the model in FOLDER and compare its logits with those of REFERENCE

A folder has config.json, model.safetensors and generation_config.json as save_pretrained writes them, and
reference.safetensors: ids I32 [sequences, length], logits F32 [sequences, length, vocabulary], loss F32 [1]. The
families in GRADIENTS also have a folder gradients/ with a model whose weights are the gradients of the loss.
"""

import contextlib
import copy
import os
import shutil
import sys

import arctic
import torch
import transformers
from safetensors.torch import load_file, save_file

SIZES = dict(vocab_size=48, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=32)
ROUTED = dict(num_experts_per_tok=2, output_router_logits=False)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.5], long_factor=[2.0, 3.0],
                short_mscale=1.2, long_mscale=1.3, original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=8)
# Latent attention, and experts in all blocks but the first.
LATENT = dict(SIZES, num_attention_heads=2, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=8,
              first_k_dense_replace=1, kv_lora_rank=5, qk_nope_head_dim=3, qk_rope_head_dim=4, v_head_dim=2)
MAGNITUDES = dict(mscale=1.0, mscale_all_dim=1.0)
YARN_OF_GPT_OSS = dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
                       truncate=False, original_max_position_embeddings=8)

# Config of each family, in which the special parts of the family have an effect.
FAMILIES = {
    "qwen3_moe": dict(**SIZES, **ROUTED, head_dim=8, intermediate_size=24, moe_intermediate_size=8, num_experts=4,
                      norm_topk_prob=True),
    "qwen2_moe": dict(**SIZES, **ROUTED, intermediate_size=24, moe_intermediate_size=8, num_experts=4,
                      shared_expert_intermediate_size=12, mlp_only_layers=[0]),
    "qwen3_next": dict(SIZES, **ROUTED, num_hidden_layers=4, head_dim=8, intermediate_size=24, moe_intermediate_size=8,
                       num_experts=4, shared_expert_intermediate_size=12, norm_topk_prob=True, mlp_only_layers=[0],
                       linear_conv_kernel_dim=3, linear_key_head_dim=4, linear_value_head_dim=6, linear_num_key_heads=2,
                       linear_num_value_heads=4, layer_types=["linear_attention", "full_attention"] * 2,
                       rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
    "qwen3_5_moe_text": dict(SIZES, **ROUTED, num_hidden_layers=4, head_dim=8, moe_intermediate_size=8, num_experts=4,
                             shared_expert_intermediate_size=12, linear_conv_kernel_dim=3, linear_key_head_dim=4,
                             linear_value_head_dim=6, linear_num_key_heads=2, linear_num_value_heads=4,
                             layer_types=["linear_attention", "full_attention"] * 2,
                             rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5,
                                                  mrope_section=[1, 1, 0], mrope_interleaved=True)),
    "olmoe": dict(**SIZES, **ROUTED, intermediate_size=8, num_experts=4, pad_token_id=None, eos_token_id=1),
    "ernie4_5_moe": dict(**SIZES, moe_k=2, intermediate_size=24, moe_intermediate_size=8, moe_num_experts=4,
                         moe_num_shared_experts=2, moe_layer_start_index=1),
    "glm4_moe": dict(**SIZES, **ROUTED, head_dim=8, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=4,
                     n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1, routed_scaling_factor=2.5,
                     use_qk_norm=True, attention_bias=True, num_mtp_layers=0),
    "deepseek_v3": dict(**LATENT, **ROUTED, q_lora_rank=6, n_shared_experts=1, n_group=4, topk_group=2,
                        norm_topk_prob=True, routed_scaling_factor=2.5, num_nextn_predict_layers=0,
                        rope_parameters=dict(**YARN, **MAGNITUDES)),
    # transformers views the rotary part of heads as complex numbers, which requires even strides.
    "deepseek_v2": dict(dict(LATENT, kv_lora_rank=6, qk_nope_head_dim=4), **ROUTED, q_lora_rank=None,
                        n_shared_experts=2, n_group=4, topk_group=2,
                        topk_method="group_limited_greedy", norm_topk_prob=False, routed_scaling_factor=16.0),
    "mixtral": dict(**SIZES, **ROUTED, intermediate_size=8, num_local_experts=4),
    "minimax_m2": dict(**SIZES, **ROUTED, head_dim=8, intermediate_size=8, num_local_experts=4,
                       rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
                       bos_token_id=1, eos_token_id=2),
    "gpt_oss": dict(SIZES, **ROUTED, hidden_size=32, head_dim=8, intermediate_size=32, num_local_experts=4, sliding_window=6,
                    rope_parameters=YARN_OF_GPT_OSS, pad_token_id=None, bos_token_id=1, eos_token_id=2),
    "llama4_text": dict(dict(SIZES, num_hidden_layers=4), num_experts_per_tok=1, output_router_logits=False, head_dim=8,
                        intermediate_size=8, intermediate_size_mlp=24, num_local_experts=4, interleave_moe_layer_step=2,
                        no_rope_layer_interval=4, attention_chunk_size=8, floor_scale=4, attn_scale=0.5,
                        rope_parameters=LLAMA3),
    "arctic": dict(**SIZES, **ROUTED, intermediate_size=8, num_local_experts=4,
                   rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
    "phimoe": dict(**SIZES, **ROUTED, intermediate_size=8, num_local_experts=4, attention_bias=True, lm_head_bias=True,
                   router_jitter_noise=0.2, sliding_window=20, rope_parameters=LONGROPE),
    "dbrx": dict(vocab_size=48, d_model=16, n_heads=4, n_layers=2, max_seq_len=32, bos_token_id=1,
                 attn_config=dict(kv_n_heads=2, clip_qkv=0.5, rope_theta=20000.0),
                 ffn_config=dict(ffn_hidden_size=8, moe_num_experts=4, moe_top_k=2),
                 rope_parameters=dict(rope_type="default", rope_theta=20000.0)),
    "llama": dict(**SIZES, intermediate_size=24, rope_parameters=LLAMA3),
    "qwen3_5_text": dict(SIZES, num_hidden_layers=4, head_dim=8, intermediate_size=24, linear_conv_kernel_dim=3,
                         linear_key_head_dim=4, linear_value_head_dim=6, linear_num_key_heads=2,
                         linear_num_value_heads=4, layer_types=["linear_attention", "full_attention"] * 2,
                         tie_word_embeddings=True,
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5,
                                              mrope_section=[1, 1, 0], mrope_interleaved=True)),
    "qwen3": dict(**SIZES, head_dim=8, intermediate_size=24, tie_word_embeddings=True, rope_parameters=YARN),
    "gpt2": dict(vocab_size=48, n_embd=16, n_layer=2, n_head=4, n_positions=32, bos_token_id=1, eos_token_id=1),
}
# Models with a vision encoder around the text model of a family.
LARGER = {
    "llama4": dict(text_config=FAMILIES["llama4_text"], boi_token_index=44, eoi_token_index=45, image_token_index=46,
                   vision_config=dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
                                      image_size=28, patch_size=14, projector_input_dim=16, projector_output_dim=16,
                                      vision_output_dim=16, pixel_shuffle_ratio=0.5)),
    "qwen3_5_moe": dict(text_config=FAMILIES["qwen3_5_moe_text"], image_token_id=44, video_token_id=45,
                        vision_start_token_id=46, vision_end_token_id=47,
                        vision_config=dict(depth=1, hidden_size=16, intermediate_size=32, num_heads=2,
                                           out_hidden_size=16, num_position_embeddings=16, patch_size=4)),
}
LARGER["qwen3_5"] = dict(LARGER["qwen3_5_moe"], text_config=FAMILIES["qwen3_5_text"], tie_word_embeddings=True)
GRADIENTS = ("qwen3_moe", "qwen3_next", "qwen3_5_moe_text", "deepseek_v3", "deepseek_v2", "gpt_oss", "glm4_moe", "mixtral",
             "llama4_text", "arctic", "phimoe", "dbrx", "llama")
# Families whose results are computed in f64. A delta net normalizes sums that cancel, which amplifies rounding in f32 to
# 5e-5 of the largest logit.
IN_DOUBLE = ("qwen3_next", "qwen3_5_moe_text", "qwen3_5_text")
SEQUENCES, LENGTH = 2, 32


def randomize(model, seed):
    """Draws all floating-point weights and buffers that checkpoints store. Values are large enough to affect the
    results."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            continue
        noise = torch.randn(tensor.shape, generator=generator)
        module = name.rsplit(".", 2)[-2]
        if "norm" in module or "ln_" in module:
            base, spread = (1.0, 0.2) if name.endswith("weight") else (0.0, 0.2)
        elif "e_score_correction_bias" in name:
            base, spread = 0.0, 0.1
        else:
            base, spread = 0.0, 0.3
        tensor.copy_(base + spread * noise)


def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, SIZES["vocab_size"], (SEQUENCES, LENGTH), generator=generator)


def outputs(model, ids):
    """Returns the logits and the mean loss of predicting the next token."""
    model.eval()
    result = model(input_ids=ids, labels=ids)
    return result.logits, result.loss


@contextlib.contextmanager
def double_precision(model):
    """Computes with `model` in f64, also where transformers converts to f32."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield copy.deepcopy(model).double()
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved


def random_model(family):
    torch.manual_seed(0)
    if family == "arctic":
        return arctic.model(FAMILIES[family])
    config = transformers.AutoConfig.for_model(family, **FAMILIES[family])
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    return transformers.AutoModelForCausalLM.from_config(config)


def save(family, model, folder):
    arctic.save(model, folder) if family == "arctic" else model.save_pretrained(folder)


def make(family, folder):
    model = random_model(family)
    with torch.no_grad():
        randomize(model, seed=1)
    shutil.rmtree(folder, ignore_errors=True)
    save(family, model, folder)
    ids = batch(seed=2)
    with double_precision(model) if family in IN_DOUBLE else contextlib.nullcontext(model) as computed:
        logits, loss = outputs(computed, ids)
        if family in GRADIENTS:
            loss.backward()
    results = {"logits": logits.detach().to(torch.float32).contiguous(), "loss": loss.detach().to(torch.float32).reshape(1)}
    save_file({"ids": ids.to(torch.int32), **results}, os.path.join(folder, "reference.safetensors"))
    if family not in GRADIENTS:
        return
    gradients = copy.deepcopy(model)
    with torch.no_grad():
        for weight, source in zip(gradients.parameters(), computed.parameters()):
            weight.copy_(source.grad if source.grad is not None else torch.zeros_like(source))
    save(family, gradients, os.path.join(folder, "gradients"))
    os.remove(os.path.join(folder, "gradients", "generation_config.json"))


def make_larger(family, folder):
    """Makes a model with a vision encoder, and the logits of its text model."""
    config = transformers.AutoConfig.for_model(family, **LARGER[family])
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.AutoModelForImageTextToText.from_config(config)
    with torch.no_grad():
        randomize(model, seed=1)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    ids = batch(seed=2) % 44  # only tokens of text
    # The model around llama4_text does not run on text alone in transformers 5.24.
    text_model = model.language_model if family == "llama4" else model
    with torch.no_grad():
        logits, _ = outputs(text_model, ids)
    save_file({"ids": ids.to(torch.int32), "logits": logits.to(torch.float32).contiguous()},
              os.path.join(folder, "reference.safetensors"))


def load(folder, reference):
    """Prints the largest difference of the logits, divided by the largest logit."""
    family = os.path.basename(reference)
    model = (arctic.load(folder, FAMILIES[family]) if family == "arctic" else
             transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32))
    expected = load_file(os.path.join(reference, "reference.safetensors"))
    with torch.no_grad():
        logits, _ = outputs(model, expected["ids"].to(torch.int64))
    difference = (logits - expected["logits"]).abs().max() / expected["logits"].abs().max()
    print(f"{difference.item():.1e}")


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "--load":
        return load(arguments[1], arguments[2])
    if len(arguments) == 2 and arguments[0] == "--larger":
        for family in LARGER:
            make_larger(family, os.path.join(arguments[1], family))
        return
    if not arguments:
        sys.exit(__doc__)
    unknown = [name for name in arguments[1:] if name not in FAMILIES]
    if unknown:
        sys.exit(f"unknown family {unknown[0]}, expected one of: {', '.join(FAMILIES)}")
    for family in arguments[1:] or FAMILIES:
        make(family, os.path.join(arguments[0], family))


if __name__ == "__main__":
    main(sys.argv[1:])
