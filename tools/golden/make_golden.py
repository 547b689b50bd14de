#!/usr/bin/env python3
"""Writes the reference trajectories of tests/golden with PyTorch in float64. See tests/golden/README.md.

Run:  python3 tools/golden/make_golden.py [OUTPUT_FOLDER]
"""
import dataclasses
import json
import pathlib
import sys

import torch
import torch.nn.functional as F

import encoder
import moe_decoder
from random_tensors import RandomTensors
from safetensors_writer import save

SEED = 33  # of 40 tried, the one whose top-2 choices stay farthest from a tie (steps[].router_margin)
STEPS = 10
MICRO_BATCHES = 2
SEQUENCES = 2  # of one micro-batch
OPTIMIZER = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "clip_norm": 1.0}


def cross_entropy_sum(logits, targets):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten().long(), reduction="sum")


def global_norm(gradients):
    return torch.stack([g.pow(2).sum() for g in gradients]).sum().sqrt()


class AdamW:
    """Written out, since details matter here: decay before the step, of matrices alone; clipping by
    min(1, clip_norm / norm) without PyTorch's 1e-6 in the denominator."""

    def __init__(self, weights):
        self.steps = 0
        self.moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in weights.items()}

    @torch.no_grad()
    def step(self, weights, norm):
        o = OPTIMIZER
        self.steps += 1
        scale = min(1.0, o["clip_norm"] / norm.item())
        for name, w in weights.items():
            g = w.grad * scale
            first, second = self.moments[name]
            first.lerp_(g, 1 - o["beta1"])
            second.lerp_(g * g, 1 - o["beta2"])
            if w.dim() >= 2:
                w.mul_(1 - o["lr"] * o["weight_decay"])
            first_hat = first / (1 - o["beta1"] ** self.steps)
            second_hat = second / (1 - o["beta2"] ** self.steps)
            w.sub_(o["lr"] * first_hat / (second_hat.sqrt() + o["eps"]))


def decoder_step(c, weights, ids, targets):
    """One global batch, forward and backward. ids, targets [MICRO_BATCHES * SEQUENCES, S]."""
    for w in weights.values():
        w.grad = None
    all_logits, terms, margin = [], {"cross_entropy": 0.0, "aux_loss": 0.0, "z_loss": 0.0}, 1.0
    for x, t in zip(ids.split(SEQUENCES), targets.split(SEQUENCES)):
        logits, routings = moe_decoder.forward(c, weights, x)
        part = {
            "cross_entropy": cross_entropy_sum(logits, t) / targets.numel(),
            "aux_loss": torch.stack([r.aux_loss for r in routings]).mean() / MICRO_BATCHES,
            "z_loss": torch.stack([r.z_loss for r in routings]).mean() / MICRO_BATCHES,
        }
        loss = (
            part["cross_entropy"]
            + c.aux_loss_coefficient * part["aux_loss"]
            + c.z_loss_coefficient * part["z_loss"]
        )
        loss.backward()
        all_logits.append(logits.detach())
        terms = {name: terms[name] + value.item() for name, value in part.items()}
        margin = min([margin] + [r.margin for r in routings])
    norm = global_norm([w.grad for w in weights.values()])
    return torch.cat(all_logits), {**terms, "grad_norm": norm.item(), "router_margin": margin}, norm


def make_decoder(folder):
    c = moe_decoder.Config()
    rng = RandomTensors(SEED)
    weights = {name: w.requires_grad_() for name, w in moe_decoder.initial_weights(c, rng).items()}
    tokens = rng.integers(MICRO_BATCHES * SEQUENCES, c.context + 1, below=c.vocab)
    ids, targets = tokens[:, :-1], tokens[:, 1:]

    tensors = {"weights/" + name: w.detach().clone() for name, w in weights.items()}
    tensors |= {"ids": ids, "targets": targets}
    optimizer = AdamW(weights)
    steps = []
    for step in range(STEPS):
        logits, scalars, norm = decoder_step(c, weights, ids, targets)
        steps.append(scalars)
        if step == 0:
            tensors["logits"] = logits
            tensors |= {"gradients/" + name: w.grad.clone() for name, w in weights.items()}
        optimizer.step(weights, norm)

    scalars = {"model": dataclasses.asdict(c), "micro_batch_sequences": SEQUENCES, "optimizer": OPTIMIZER, "steps": steps}
    write(folder, "moe_decoder", tensors, scalars)


def make_encoder(folder):
    c = encoder.Config()
    rng = RandomTensors(SEED + 1)
    weights = {name: w.requires_grad_() for name, w in encoder.initial_weights(c, rng).items()}
    mask_id = c.vocab - 1
    targets = rng.integers(SEQUENCES, c.context, below=mask_id)
    loss_mask = (rng.integers(SEQUENCES, c.context, below=4) == 0).int()
    ids = torch.where(loss_mask == 1, torch.full_like(targets, mask_id), targets)

    logits = encoder.forward(c, weights, ids)
    predicted = loss_mask == 1
    loss = cross_entropy_sum(logits[predicted], targets[predicted]) / predicted.sum()
    loss.backward()

    tensors = {"weights/" + name: w for name, w in weights.items()}
    tensors |= {"ids": ids, "targets": targets, "loss_mask": loss_mask, "logits": logits}
    tensors |= {"gradients/" + name: w.grad for name, w in weights.items()}
    scalars = {
        "model": dataclasses.asdict(c),
        "mask_id": mask_id,
        "cross_entropy": loss.item(),
        "grad_norm": global_norm([w.grad for w in weights.values()]).item(),
    }
    write(folder, "encoder", tensors, scalars)


def write(folder, name, tensors, scalars):
    scalars = {"torch": torch.__version__, "seed": SEED, **scalars}
    path = folder / f"{name}.safetensors"
    save(path, tensors)
    (folder / f"{name}.json").write_text(json.dumps(scalars, indent=1) + "\n")
    print(f"{path}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, seed {SEED}")
    folder.mkdir(parents=True, exist_ok=True)
    make_decoder(folder)
    make_encoder(folder)


if __name__ == "__main__":
    main()
