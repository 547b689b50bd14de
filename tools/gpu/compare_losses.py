"""compare_losses.py DEVICE|--ways: compares losses and norms in the working folder, step by step.
Compares train.PRECISION.cpu.jsonl with train.PRECISION.DEVICE.jsonl, or ways.*.jsonl with ways.plain.jsonl. Exits with
1 if f64 runs differ by more than rounding, or other runs by more than a choice of experts that rounding has changed."""

import glob
import json
import sys

# Relative tolerance for each precision. In f32 and bf16, the rounding of a logit may change the choice of an expert.
# Such a run is different but equally good.
ALLOWED = {"f64": 1e-9, "f32": 1e-2, "bf16": 5e-2}


def read(path):
    return [step for step in map(json.loads, open(path)) if "loss" in step and "step_seconds" in step]


def difference(a, b):
    if a is None or b is None:  # a step without targets has no loss
        return 0 if a is b else float("inf")
    return abs(a - b) / max(abs(a), 1e-30)


def worst_of(pairs):
    """Returns the largest difference of each quantity; infinity if there are no pairs."""
    return {what: max((difference(a[what], b[what]) for a, b in pairs), default=float("inf"))
            for what in ("loss", "grad_norm", "aux_loss")}


def ways():
    plain = {step["step"]: step for step in read("ways.plain.jsonl")}
    failed = False
    for path in sorted(glob.glob("ways.*.jsonl")):
        if path == "ways.plain.jsonl":
            continue
        steps = read(path)
        pairs = [(plain[s["step"]], s) for s in steps if s["step"] in plain]
        worst = worst_of(pairs)
        good = len(pairs) == len(steps) and worst["loss"] <= ALLOWED["f64"] and worst["grad_norm"] <= ALLOWED["f64"]
        failed |= not good
        print(json.dumps({"way": path[5:-6], "steps": [s["step"] for s in steps], "good": good, **worst}))
    sys.exit(failed)


def main():
    if sys.argv[1:] == ["--ways"]:
        ways()
    failed = False
    for precision, allowed in ALLOWED.items():
        runs = [read(f"train.{precision}.{device}.jsonl") for device in ("cpu", sys.argv[1])]
        worst = worst_of(list(zip(*runs)))
        good = len(runs[0]) == len(runs[1]) and worst["loss"] <= allowed
        failed |= not good
        print(json.dumps({"precision": precision, "steps": [len(r) for r in runs], "allowed": allowed, "good": good,
                          "first": [s["loss"] for r in runs for s in r[:1]],
                          "last": [s["loss"] for r in runs for s in r[-1:]], **worst}))
    sys.exit(failed)


if __name__ == "__main__":
    main()
