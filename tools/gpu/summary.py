"""summary.py STAGE STATUS SECONDS: prints a line about a stage of check.sh from the files that it left in the working
folder, and puts the stage into summary.json and summary.md."""

import glob
import json
import os
import sys


def tail(pattern):
    lines = [line.rstrip() for path in sorted(glob.glob(pattern)) for line in open(path, errors="replace")]
    return [line for line in lines if line][-3:]


def parity():
    tests = failures = 0
    failed = []
    for path in sorted(glob.glob("parity.*.json")):
        report = json.load(open(path))
        tests += report["tests"]
        failures += report["failures"]
        for suite in report["testsuites"]:
            failed += [f'{suite["name"]}.{t["name"]}' for t in suite["testsuite"] if "failures" in t]
    return {"tests": tests, "failures": failures, "failed": failed}, f"{tests} tests, {failures} failed"


def train():
    found = [json.loads(line) for line in open("train.compared.log") if line.startswith("{")]
    worst = ", ".join(f'{run["precision"]} {run["loss"]:.1e}' for run in found)
    return {"runs": found}, f"losses of CPU and card differ by {worst}"


def step():
    steps = [json.loads(line) for line in open("step.run.jsonl")] if os.path.exists("step.run.jsonl") else []
    seconds = sorted(s["step_seconds"] for s in steps[3:] if "step_seconds" in s)
    if not seconds:
        return {}, "no step was timed"
    median = seconds[len(seconds) // 2]
    tokens = steps[-1]["tokens_per_second"] * steps[-1]["step_seconds"]
    peak = sum(v for k, v in steps[-1]["memory_peak_bytes"].items() if k != "offload")
    found = {"seconds": median, "tokens_per_second": tokens / median, "peak_bytes": peak, "losses": [s["loss"] for s in steps]}
    return found, f'{median * 1e3:.0f} ms a step, {tokens / median:.0f} tokens/s, MFU {steps[-1]["mfu"]:.1%}'


def bench():
    lines = [json.loads(line) for line in open("bench.jsonl")] if os.path.exists("bench.jsonl") else []
    return {"kernels": lines}, f"{len(lines)} kernels"


def markdown(summary):
    out = [f'# GPU check\n\n{summary["machine"]}\n']
    for name, stage in summary["stages"].items():
        out.append(f'## {name}: {stage["line"]}\n')
        out += [f"- {test}" for test in stage.get("failed", [])]
        if stage.get("kernels"):
            out += ["| kernel | us | TFLOP/s | GB/s | of copy |", "|---|---:|---:|---:|---:|"]
        for k in stage.get("kernels", []):
            rate = f'{k["tflops"]:.1f}' if k["tflops"] else ""
            memory = (f'{k["gbytes_per_s"]:.0f}', f'{k["of_copy"]:.0%}') if k["gbytes_per_s"] else ("", "")
            out.append(f'| {k["kernel"]} | {k["us"]:.1f} | {rate} | {memory[0]} | {memory[1]} |')
        out.append("")
    return "\n".join(out)


def main():
    stage, status, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    found, text = {"parity": parity, "train": train, "bench": bench, "step": step}[stage]()
    line = f'{"ok" if status == 0 else f"FAILED ({status})"}, {text}, {seconds} s'
    if status:
        line += "; " + " / ".join(tail(f"{stage}.*log"))
    print(f"{stage}: {line}", flush=True)
    summary = {"machine": open("machine.txt").read().strip(), "stages": {}}
    if os.path.exists("summary.json"):
        summary["stages"] = json.load(open("summary.json"))["stages"]
    summary["stages"][stage] = {"status": status, "seconds": seconds, "line": line, **found}
    with open("summary.json", "w") as out:
        json.dump(summary, out, indent=1)
    with open("summary.md", "w") as out:
        out.write(markdown(summary))


main()
