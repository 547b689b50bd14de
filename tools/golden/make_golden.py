#!/usr/bin/env python3
"""Writes the reference trajectories of tests/golden with PyTorch in float64. See tests/golden/README.md.

Without arguments, the new files equal the existing files up to rounding. Other sizes and seeds help to find a mistake:

    python3 tools/golden/make_golden.py /tmp/golden --seed 5 --decoder layers=1 experts=8 --encoder heads=2
"""
import argparse
import dataclasses
import json
import pathlib

import torch
import torch.nn.functional as F

import encoder
import moe_decoder
from random_tensors import RandomTensors
from safetensors_writer import save

DEFAULT_SEED = 33  # best of 40 seeds: its top-2 choices are the farthest from a tie (steps[].router_margin)
OPTIMIZER = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "clip_norm": 1.0}


def cross_entropy_sum(logits, targets):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten().long(), reduction="sum")


def global_norm(gradients):
    return torch.stack([g.pow(2).sum() for g in gradients]).sum().sqrt()


@dataclasses.dataclass(frozen=True)
class Batches:
    steps: int
    micro_batches: int
    sequences: int  # number of sequences in one micro-batch


class AdamW:
    """AdamW, written out because details matter: decays only weights with at least two dimensions, before the step;
    clips by min(1, clip_norm / norm) without PyTorch's 1e-6 in the denominator."""

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


def decoder_step(c, batches, weights, ids, targets):
    """Runs forward and backward of one global batch. `ids` and `targets` are [micro_batches * sequences, S]. Returns
    the logits, the entry of steps[], and the norm of the gradients."""
    for w in weights.values():
        w.grad = None
    all_logits, terms, margin = [], {"cross_entropy": 0.0, "aux_loss": 0.0, "z_loss": 0.0}, 1.0
    for x, t in zip(ids.split(batches.sequences), targets.split(batches.sequences)):
        logits, routings = moe_decoder.forward(c, weights, x)
        part = {
            "cross_entropy": cross_entropy_sum(logits, t) / targets.numel(),
            "aux_loss": torch.stack([r.aux_loss for r in routings]).mean() / batches.micro_batches,
            "z_loss": torch.stack([r.z_loss for r in routings]).mean() / batches.micro_batches,
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


def make_decoder(folder, c, batches, seed):
    rng = RandomTensors(seed)
    weights = {name: w.requires_grad_() for name, w in moe_decoder.initial_weights(c, rng).items()}
    tokens = rng.integers(batches.micro_batches * batches.sequences, c.context + 1, below=c.vocab)
    ids, targets = tokens[:, :-1], tokens[:, 1:]

    tensors = {"weights/" + name: w.detach().clone() for name, w in weights.items()}
    tensors |= {"ids": ids, "targets": targets}
    optimizer = AdamW(weights)
    steps = []
    for step in range(batches.steps):
        logits, scalars, norm = decoder_step(c, batches, weights, ids, targets)
        steps.append(scalars)
        if step == 0:
            tensors["logits"] = logits
            tensors |= {"gradients/" + name: w.grad.clone() for name, w in weights.items()}
        optimizer.step(weights, norm)

    scalars = {
        "model": dataclasses.asdict(c),
        "micro_batch_sequences": batches.sequences,
        "optimizer": OPTIMIZER,
        "steps": steps,
    }
    write(folder, "moe_decoder", tensors, scalars, seed)


def make_encoder(folder, c, batches, seed):
    rng = RandomTensors(seed + 1)
    weights = {name: w.requires_grad_() for name, w in encoder.initial_weights(c, rng).items()}
    mask_id = c.vocab - 1
    targets = rng.integers(batches.sequences, c.context, below=mask_id)
    loss_mask = (rng.integers(batches.sequences, c.context, below=4) == 0).int()
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
    write(folder, "encoder", tensors, scalars, seed)


def write(folder, name, tensors, scalars, seed):
    scalars = {"torch": torch.__version__, "seed": seed, **scalars}
    path = folder / f"{name}.safetensors"
    save(path, tensors)
    (folder / f"{name}.json").write_text(json.dumps(scalars, indent=1) + "\n")
    print(f"{path}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def config(default, sizes):
    """Returns `default` with some fields replaced by texts such as "layers=1"."""
    kinds = {field.name: field.type for field in dataclasses.fields(default)}
    changes = {}
    for size in sizes:
        name, _, value = size.partition("=")
        if name not in kinds:
            raise SystemExit(f"make_golden.py: unknown size {name}, expected one of: {', '.join(kinds)}")
        try:
            changes[name] = kinds[name](value)
        except ValueError:
            raise SystemExit(f"make_golden.py: {size}: expected a value of type {kinds[name].__name__}") from None
    return dataclasses.replace(default, **changes)


def positive(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def arguments():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=default, help="output folder [tests/golden]")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="seed of weights and tokens [%(default)s]")
    parser.add_argument("--steps", type=positive, default=10, help="number of updates of the decoder [%(default)s]")
    parser.add_argument("--micro-batches", type=positive, default=2, help="micro-batches in a global batch [%(default)s]")
    parser.add_argument("--sequences", type=positive, default=2, help="sequences in a micro-batch [%(default)s]")
    for name, module in (("--decoder", moe_decoder), ("--encoder", encoder)):
        sizes = " ".join(f"{f.name}={f.default}" for f in dataclasses.fields(module.Config))
        parser.add_argument(name, nargs="+", metavar="SIZE=N", default=[], help=f"sizes of the model [{sizes}]")
    return parser.parse_args()


def main():
    a = arguments()
    decoder_config, encoder_config = config(moe_decoder.Config(), a.decoder), config(encoder.Config(), a.encoder)
    batches = Batches(a.steps, a.micro_batches, a.sequences)
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, seed {a.seed}")
    a.folder.mkdir(parents=True, exist_ok=True)
    make_decoder(a.folder, decoder_config, batches, a.seed)
    make_encoder(a.folder, encoder_config, batches, a.seed)


if __name__ == "__main__":
    main()
