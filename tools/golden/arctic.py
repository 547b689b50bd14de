"""Snowflake Arctic for models.py. `transformers` has no Arctic; Snowflake publishes the code of the model with the weights.
This file composes the model from parts of Mixtral in `transformers`, in the order of Snowflake's code:

    h = x + attention(input_layernorm(x))
    y = h + residual_mlp(residual_layernorm(h)) + experts(post_attention_layernorm(x))

The experts read the block's input x, not h. Folders have the names and the config.json of the published weights.
"""

import json
import os

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.mixtral.modeling_mixtral import MixtralDecoderLayer, MixtralRMSNorm

# Keys of Arctic's config.json that Mixtral does not have, with the published values.
OWN_KEYS = dict(model_type="arctic", architectures=["ArcticForCausalLM"], parallel_attn_mlp_res=True, use_residual=True,
                moe_layer_frequency=1, moe_token_dropping=False, moe_train_capacity_factor=1, moe_eval_capacity_factor=1,
                moe_min_capacity=0, enable_expert_tensor_parallelism=False, quantization=None)
OF_MLP = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}


class Block(MixtralDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.residual_layernorm = MixtralRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.residual_mlp = LlamaMLP(transformers.LlamaConfig(hidden_size=config.hidden_size, num_attention_heads=1,
                                                              intermediate_size=config.hidden_size))

    def forward(self, x, *arguments, **options):
        attended, _ = self.self_attn(self.input_layernorm(x), *arguments, **options)
        h = x + attended
        return h + self.residual_mlp(self.residual_layernorm(h)) + self.mlp(self.post_attention_layernorm(x))


def model(keys):
    config = transformers.AutoConfig.for_model("mixtral", **keys)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    made = transformers.AutoModelForCausalLM.from_config(config)
    made.model.layers = torch.nn.ModuleList(Block(config, l) for l in range(config.num_hidden_layers))
    return made


def published_name(name):
    for theirs, ours in OF_MLP.items():
        name = name.replace(f"residual_mlp.{theirs}", f"residual_mlp.{ours}")
    return name.replace("mlp.gate.", "block_sparse_moe.gate.")


def published_parts(name, tensor):
    """Returns the published names of the matrices of all experts in the stacked `tensor`, by expert."""
    prefix = name.replace("mlp.experts", "block_sparse_moe.experts").rsplit(".", 1)[0]
    parts = ("w1", "w3") if name.endswith("gate_up_proj") else ("w2",)
    return [[f"{prefix}.{e}.{part}.weight" for part in parts] for e in range(tensor.shape[0])]


def published_tensors(made):
    """Returns the model's tensors under the published names."""
    tensors = {}
    for name, tensor in made.state_dict().items():
        tensor = tensor.detach()
        if "mlp.experts" in name:
            for expert, names in zip(tensor, published_parts(name, tensor)):
                tensors.update(zip(names, (rows.contiguous() for rows in expert.chunk(len(names)))))
            continue
        tensors[published_name(name)] = tensor.contiguous()
    return tensors


def save(made, folder):
    """Writes config.json, generation_config.json and model.safetensors."""
    os.makedirs(folder, exist_ok=True)
    made.save_pretrained(folder)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    config.update(OWN_KEYS)
    for key in ("head_dim", "router_jitter_noise"):
        config.pop(key, None)
    with open(path, "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")
    save_file(published_tensors(made), os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def load(folder, keys):
    """Returns the model of a folder that save() wrote, or of an export."""
    made = model(keys)
    stored = load_file(os.path.join(folder, "model.safetensors"))
    expected = published_tensors(made)
    assert stored.keys() == expected.keys(), sorted(stored.keys() ^ expected.keys())
    with torch.no_grad():
        for name, tensor in made.state_dict().items():
            if "mlp.experts" in name:
                for expert, names in zip(tensor, published_parts(name, tensor)):
                    expert.copy_(torch.cat([stored[part] for part in names]))
                continue
            tensor.copy_(stored[published_name(name)])
    return made
