"""A tiny dense encoder, written to be readable: pre-norm LayerNorm, bidirectional attention, exact GELU, learned
positions, a bias in every linear layer, and the output head tied to the embedding. Letters of shapes are as in moe_decoder.py.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Config:
    layers: int = 2
    hidden: int = 32
    heads: int = 4
    context: int = 16
    vocab: int = 97
    mlp_hidden: int = 64
    norm_eps: float = 1e-5

    @property
    def head_size(self):
        return self.hidden // self.heads


def initial_weights(c, rng):
    weights = {
        "embedding.weight": rng.normal(c.vocab, c.hidden, std=c.hidden**-0.5),
        "position_embedding.weight": rng.normal(c.context, c.hidden, std=c.hidden**-0.5),
    }

    def norm(name):
        weights[name + ".weight"] = rng.normal(c.hidden, mean=1.0, std=0.1)
        weights[name + ".bias"] = rng.normal(c.hidden, std=0.1)

    def linear(name, rows, columns):
        weights[name + ".weight"] = rng.normal(rows, columns, std=columns**-0.5)
        weights[name + ".bias"] = rng.normal(rows, std=0.1)

    for i in range(c.layers):
        layer = f"layers.{i}."
        norm(layer + "attention_norm")
        for name in ("q", "k", "v", "output"):
            linear(layer + "attention." + name, c.hidden, c.hidden)
        norm(layer + "mlp_norm")
        linear(layer + "mlp.up", c.mlp_hidden, c.hidden)
        linear(layer + "mlp.down", c.hidden, c.mlp_hidden)
    norm("norm")
    return weights


def forward(c, weights, ids):
    """Returns the logits [B, S, V] of ids [B, S]."""
    batch, length = ids.shape

    def norm(name, x):
        return F.layer_norm(x, (c.hidden,), weights[name + ".weight"], weights[name + ".bias"], c.norm_eps)

    def linear(name, x):
        return F.linear(x, weights[name + ".weight"], weights[name + ".bias"])

    def heads(x):
        return x.view(batch, length, c.heads, c.head_size).transpose(1, 2)

    x = weights["embedding.weight"][ids.long()] + weights["position_embedding.weight"][:length]
    for i in range(c.layers):
        layer = f"layers.{i}."
        h = norm(layer + "attention_norm", x)
        q, k, v = (heads(linear(layer + "attention." + name, h)) for name in "qkv")
        mixed = (q @ k.transpose(-1, -2) * c.head_size**-0.5).softmax(-1) @ v
        x = x + linear(layer + "attention.output", mixed.transpose(1, 2).reshape(batch, length, c.hidden))
        h = norm(layer + "mlp_norm", x)
        x = x + linear(layer + "mlp.down", F.gelu(linear(layer + "mlp.up", h)))
    return F.linear(norm("norm", x), weights["embedding.weight"])
