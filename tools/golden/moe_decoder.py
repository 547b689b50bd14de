"""A tiny decoder like Mixtral, written to be readable: every formula is written out, without module classes.

Shapes: B sequences, S tokens per sequence, T = B * S, D hidden size, H heads, K kv heads, d head size, V vocabulary,
E experts, F hidden size of an expert.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Config:
    layers: int = 2
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 2
    context: int = 16
    vocab: int = 97
    experts: int = 4
    top_k: int = 2
    expert_hidden: int = 48
    norm_eps: float = 1e-5
    rotary_theta: float = 10000.0
    aux_loss_coefficient: float = 0.01
    z_loss_coefficient: float = 0.001

    @property
    def head_size(self):
        return self.hidden // self.heads


def initial_weights(c, rng):
    """Returns the weights. Linear weights are [out, in]. Gains differ from 1, so that a missing gain is noticed."""

    def gain():
        return rng.normal(c.hidden, mean=1.0, std=0.1)

    def linear(*shape):
        return rng.normal(*shape, std=shape[-1] ** -0.5)

    weights = {"embedding.weight": rng.normal(c.vocab, c.hidden, std=1.0)}
    for i in range(c.layers):
        layer = f"layers.{i}."
        weights[layer + "attention_norm.weight"] = gain()
        weights[layer + "attention.q.weight"] = linear(c.heads * c.head_size, c.hidden)
        weights[layer + "attention.k.weight"] = linear(c.kv_heads * c.head_size, c.hidden)
        weights[layer + "attention.v.weight"] = linear(c.kv_heads * c.head_size, c.hidden)
        weights[layer + "attention.output.weight"] = linear(c.hidden, c.heads * c.head_size)
        weights[layer + "mlp_norm.weight"] = gain()
        weights[layer + "moe.router.weight"] = linear(c.experts, c.hidden)
        weights[layer + "moe.experts.gate.weight"] = linear(c.experts, c.expert_hidden, c.hidden)
        weights[layer + "moe.experts.up.weight"] = linear(c.experts, c.expert_hidden, c.hidden)
        weights[layer + "moe.experts.down.weight"] = linear(c.experts, c.hidden, c.expert_hidden)
    weights["norm.weight"] = gain()
    weights["head.weight"] = linear(c.vocab, c.hidden)
    return weights


def scope(weights, prefix):
    """Returns a function that looks up a weight by the rest of its name: scope(w, "layers.0.")("mlp_norm.weight")."""
    return lambda name: weights[prefix + name]


def rms_norm(x, gain, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain


def rotate(x, theta):
    """Rotates x [B, heads, S, d] by position. Elements j of the two halves of a head form a pair."""
    half = x.shape[-1] // 2
    frequency = theta ** (-torch.arange(half, dtype=x.dtype) / half)
    angle = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), frequency)
    first, second = x[..., :half], x[..., half:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def attention(c, weight, x):
    """Returns causal attention of x [B, S, D]. Query head h uses kv head h // (H / K)."""
    batch, length, _ = x.shape

    def project(name, heads):
        return F.linear(x, weight(name + ".weight")).view(batch, length, heads, -1).transpose(1, 2)

    q = rotate(project("q", c.heads), c.rotary_theta)
    k = rotate(project("k", c.kv_heads), c.rotary_theta).repeat_interleave(c.heads // c.kv_heads, 1)
    v = project("v", c.kv_heads).repeat_interleave(c.heads // c.kv_heads, 1)
    scores = q @ k.transpose(-1, -2) * c.head_size**-0.5
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
    return F.linear(mixed.transpose(1, 2).reshape(batch, length, -1), weight("output.weight"))


@dataclass
class Routing:
    """Results of one MoE layer, except its output."""

    aux_loss: torch.Tensor  # experts * sum_e (share of assignments)_e * (mean probability)_e
    z_loss: torch.Tensor  # mean over tokens of logsumexp(logits)^2
    margin: float  # smallest difference between the last chosen and the first rejected probability


def moe(c, weight, x):
    """Returns the output of the MoE layer for x [T, D]: softmax over all experts, top-k, chosen probabilities divided by
    their sum, no dropped tokens. Also returns its Routing."""
    logits = F.linear(x, weight("router.weight"))
    probabilities = logits.softmax(-1)
    ranked, order = probabilities.sort(-1, descending=True)
    chosen, scores = order[:, : c.top_k], ranked[:, : c.top_k]
    scores = scores / scores.sum(-1, keepdim=True)

    output = torch.zeros_like(x)
    for e in range(c.experts):
        token, slot = (chosen == e).nonzero(as_tuple=True)
        gate = F.silu(x[token] @ weight("experts.gate.weight")[e].t())
        up = x[token] @ weight("experts.up.weight")[e].t()
        down = (gate * up) @ weight("experts.down.weight")[e].t()
        output = output.index_add(0, token, down * scores[token, slot].unsqueeze(-1))

    share = torch.bincount(chosen.flatten(), minlength=c.experts).to(x.dtype) / chosen.numel()
    routing = Routing(
        aux_loss=c.experts * (share * probabilities.mean(0)).sum(),
        z_loss=logits.logsumexp(-1).pow(2).mean(),
        margin=(ranked[:, c.top_k - 1] - ranked[:, c.top_k]).min().item(),
    )
    return output, routing


def forward(c, weights, ids):
    """Returns the logits [B, S, V] of ids [B, S], and one Routing per layer."""
    x = weights["embedding.weight"][ids.long()]
    routings = []
    for i in range(c.layers):
        layer = f"layers.{i}."
        h = rms_norm(x, weights[layer + "attention_norm.weight"], c.norm_eps)
        x = x + attention(c, scope(weights, layer + "attention."), h)
        h = rms_norm(x, weights[layer + "mlp_norm.weight"], c.norm_eps)
        y, routing = moe(c, scope(weights, layer + "moe."), h.flatten(0, 1))
        x = x + y.view_as(x)
        routings.append(routing)
    x = rms_norm(x, weights["norm.weight"], c.norm_eps)
    return F.linear(x, weights["head.weight"]), routings
