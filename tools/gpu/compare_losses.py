"""compare_losses.py: losses and norms of train.PRECISION.{cpu,cuda}.jsonl in the working folder, step by step. Exits with 1
where f64 runs differ by more than rounding, or others by more than a choice of experts that rounding turned."""

import json
import sys

# Relative. Below f64 a logit's rounding may choose another expert: a different, equally good, run.
ALLOWED = {"f64": 1e-9, "f32": 1e-2, "bf16": 5e-2}


def read(path):
    return [step for step in map(json.loads, open(path)) if "loss" in step and "step_seconds" in step]


def main():
    failed = False
    for precision, allowed in ALLOWED.items():
        runs = [read(f"train.{precision}.{device}.jsonl") for device in ("cpu", "cuda")]
        worst = {}
        for cpu, cuda in zip(*runs):
            for what in ("loss", "grad_norm", "aux_loss"):
                gap = abs(cpu[what] - cuda[what]) / max(abs(cpu[what]), 1e-30)
                worst[what] = max(worst.get(what, 0), gap)
        good = len(runs[0]) == len(runs[1]) > 0 and worst["loss"] <= allowed
        failed |= not good
        print(json.dumps({"precision": precision, "steps": [len(r) for r in runs], "allowed": allowed, "good": good,
                          "first": [r[0]["loss"] for r in runs], "last": [r[-1]["loss"] for r in runs], **worst}))
    sys.exit(failed)


if __name__ == "__main__":
    main()
