"""Writes a Hugging Face folder of the family qwen3_moe with random weights in bf16, for measurements of import and export.

    large_model.py FOLDER BYTES

The number of blocks is the least for which the weights take at least BYTES. Shards hold up to a quarter of BYTES.
Standard library only.
"""
import json
import os
import struct
import sys

HIDDEN, HEADS, GROUPS, HEAD, EXPERTS, WIDTH, VOCAB = 1024, 16, 4, 64, 16, 512, 8192
CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "dtype": "bfloat16",
    "attention_bias": False, "decoder_sparse_step": 1, "hidden_act": "silu", "hidden_size": HIDDEN, "head_dim": HEAD,
    "intermediate_size": WIDTH, "moe_intermediate_size": WIDTH, "num_attention_heads": HEADS, "mlp_only_layers": [],
    "num_key_value_heads": GROUPS, "num_experts": EXPERTS, "num_experts_per_tok": 2, "norm_topk_prob": True,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "router_aux_loss_coef": 0.001,
    "tie_word_embeddings": False, "vocab_size": VOCAB, "use_sliding_window": False,
}


def block(index):
    """Returns the names and shapes of one block."""
    at = f"model.layers.{index}."
    shapes = {
        "input_layernorm.weight": [HIDDEN], "post_attention_layernorm.weight": [HIDDEN],
        "self_attn.q_proj.weight": [HEADS * HEAD, HIDDEN], "self_attn.k_proj.weight": [GROUPS * HEAD, HIDDEN],
        "self_attn.v_proj.weight": [GROUPS * HEAD, HIDDEN], "self_attn.o_proj.weight": [HIDDEN, HEADS * HEAD],
        "self_attn.q_norm.weight": [HEAD], "self_attn.k_norm.weight": [HEAD], "mlp.gate.weight": [EXPERTS, HIDDEN],
    }
    for e in range(EXPERTS):
        for name, shape in {"gate": [WIDTH, HIDDEN], "up": [WIDTH, HIDDEN], "down": [HIDDEN, WIDTH]}.items():
            shapes[f"mlp.experts.{e}.{name}_proj.weight"] = shape
    return {at + name: shape for name, shape in shapes.items()}


def size(shape):
    """Returns the bytes of a bf16 tensor."""
    count = 2
    for n in shape:
        count *= n
    return count


def write_shard(path, tensors, source):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size(shape)]}
        offset += size(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for start in range(0, offset, len(source)):
            file.write(source[: min(len(source), offset - start)])


def main():
    folder, wanted = sys.argv[1], int(sys.argv[2])
    tensors = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "lm_head.weight": [VOCAB, HIDDEN], "model.norm.weight": [HIDDEN]}
    blocks = 0
    while blocks == 0 or sum(map(size, tensors.values())) < wanted:
        tensors.update(block(blocks))
        blocks += 1
    shards, room = [{}], 0
    for name, shape in tensors.items():
        if room + size(shape) > wanted // 4 and shards[-1]:
            shards.append({})
            room = 0
        shards[-1][name] = shape
        room += size(shape)
    # Finite values around 0.01: random low bytes below high bytes 0x3c and 0xbc.
    low = os.urandom(1 << 20)
    high = bytes(0x3C | (b & 0x80) for b in os.urandom(1 << 20))
    source = bytes(x for pair in zip(low, high) for x in pair)
    os.makedirs(folder)
    places = {}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        write_shard(os.path.join(folder, name), shard, source)
        places.update({tensor: name for tensor in shard})
    index = {"metadata": {"total_size": sum(map(size, tensors.values()))}, "weight_map": places}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump(index, file)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(CONFIG | {"num_hidden_layers": blocks}, file, indent=2)


main()
