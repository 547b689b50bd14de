"""summary.py STAGE STATUS SECONDS DEVICE: prints a line about a stage of check.sh from its files in the working
folder, and adds the stage to summary.json and summary.md. Status 0: passed, 77: skipped, otherwise: failed. Keeps the
entries of earlier stages in summary.json."""

import glob
import json
import os
import re
import statistics
import sys


# Returns the logs of a stage. If runs of `hexad verify` have failed in the stage, returns only the logs of these runs.
def logs_of(stage, found):
    runs = found.get("runs")
    if isinstance(runs, dict):
        failed = [name for name, r in runs.items() if not r["layouts"] or r["errors"] or r["mismatches"]]
        if failed:
            return [f"{stage}.{name}.log" for name in failed]
    return sorted(glob.glob(f"{stage}.*log"))


def tail(paths):
    lines = [line.rstrip() for path in paths for line in open(path, errors="replace")]
    return [line for line in lines if line][-3:]


def tests_of(stage):
    tests = failures = 0
    failed = []
    for path in sorted(glob.glob(f"{stage}.*json")):
        report = json.load(open(path))
        tests += report["tests"]
        failures += report["failures"]
        for suite in report["testsuites"]:
            failed += [f'{suite["name"]}.{t["name"]}' for t in suite["testsuite"] if "failures" in t]
    not_run = open(f"{stage}.not_run").read().splitlines() if os.path.exists(f"{stage}.not_run") else []
    return ({"tests": tests, "failures": failures, "failed": failed, "not_run": not_run},
            "; ".join([f"{tests} tests, {failures} failed", *not_run]))


# Reads the output of `hexad verify`: "30 layouts in 41.5 s: 0 mismatches; otherwise the worst difference is 5.4e-14, 2%
# of ..."
def layouts_of(stage):
    runs = {}
    for path in sorted(glob.glob(f"{stage}.*.log")):
        text = open(path, errors="replace").read()
        found = re.search(r"(\d+) layouts? in ([\d.]+) s: (?:(\d+) errors?, )?(\d+) mismatch\w*; otherwise the worst difference is ([\d.e+-]+)", text)
        name = path[len(stage) + 1:-4]
        if found:
            layouts, seconds, errors, mismatches, worst = found.groups()
            runs[name] = {"layouts": int(layouts), "seconds": float(seconds), "errors": int(errors or 0),
                          "mismatches": int(mismatches), "worst": float(worst)}
        else:
            runs[name] = {"layouts": 0, "says": text.strip().splitlines()[-1] if text.strip() else "no output"}
    line = "; ".join(f'{name} {r["layouts"]} layouts, {r["mismatches"]} wrong, {r["errors"]} errors, largest difference {r["worst"]:.1e}' if r["layouts"]
                     else f'{name}: {r["says"]}' for name, r in runs.items())
    return {"runs": runs}, line


def sanitize():
    errors = {}
    for path in sorted(glob.glob("sanitize.*.log")):
        found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", open(path, errors="replace").read())
        errors[path[len("sanitize."):-4]] = int(found[-1]) if found else None
    return {"errors": errors}, ", ".join(f"{tool} {'?' if n is None else n} errors" for tool, n in errors.items())


def train():
    found = [json.loads(line) for line in open("train.compared.log") if line.startswith("{")]
    worst = ", ".join(f'{run["precision"]} {run["loss"]:.1e}' for run in found)
    return {"runs": found}, f"losses of CPU and GPU differ by {worst}"


def ways():
    found = [json.loads(line) for line in open("ways.compared.log") if line.startswith("{")]
    bad = [w["way"] for w in found if not w["good"]]
    worst = max((w.get("loss", 0) for w in found), default=0)
    return {"ways": found, "failed": bad}, (f"{len(found) - len(bad)} of {len(found)} ways agree with the plain run, "
                                            f"largest difference {worst:.1e}")


def step():
    found = {}
    for name in ("run", "balanced"):
        path = f"step.{name}.jsonl"
        steps = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
        steps = [s for s in steps if "step_seconds" in s]
        if len(steps) < 5:
            return found, f"{name}: too few steps"
        median = statistics.median(s["step_seconds"] for s in steps[3:])
        tokens = steps[-1]["tokens_per_second"] * steps[-1]["step_seconds"]
        peak = steps[-1]["memory_peak_bytes"]["total"]
        found[name] = {"seconds": median, "tokens_per_second": tokens / median, "peak_gib": peak / 2**30,
                       "max_load": [s["router_max_load"] for s in steps], "losses": [s["loss"] for s in steps]}
    return {"steps": found}, "; ".join(
        f'{name} {s["seconds"] * 1e3:.0f} ms, {s["tokens_per_second"]:.0f} tokens/s, peak {s["peak_gib"]:.1f} GiB'
        for name, s in found.items())


def peer():
    lines = [json.loads(line) for line in open("peer.jsonl")] if os.path.exists("peer.jsonl") else []
    if not lines:
        return {}, "PyTorch printed no result"
    p = lines[-1]
    return {"peer": p}, (f'PyTorch {p["torch"]} {p["seconds"] * 1e3:.0f} ms, {p["tokens_per_second"]:.0f} tokens/s, '
                         f'peak {p["peak_gib"]:.1f} GiB')


def bench():
    lines = [json.loads(line) for line in open("bench.jsonl")] if os.path.exists("bench.jsonl") else []
    return {"kernels": lines}, f"{len(lines)} kernels"


def markdown(summary):
    out = ["# GPU check\n", *(f"- {name}: {value}" for name, value in summary["machine"].items()),
           "- stages: " + ", ".join(f"{n} {result}" for result, n in summary["counts"].items()), ""]
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


def machine(device):
    """Reads machine.txt, which check.sh writes: a line about the GPU, and the output of `hexad env`."""
    lines = open("machine.txt", errors="replace").read().strip().splitlines()
    card = [part.strip() for part in lines[0].split(",")]
    found = {"device": device, "card": card[0]}
    if len(card) == 3:
        found.update(driver=card[1], memory=card[2])
    for line in lines[1:]:
        name, _, value = line.partition(" ")
        found[name] = value.strip()
    return found


STAGES = {"parity": lambda: tests_of("parity"), "gradients": lambda: tests_of("gradients"), "train": train, "ways": ways,
          "share": lambda: layouts_of("share"), "verify": lambda: layouts_of("verify"),
          "options": lambda: layouts_of("options"), "sanitize": sanitize, "bench": bench, "step": step, "peer": peer}


def main():
    stage, status, seconds, device = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    result = {0: "passed", 77: "skipped"}.get(status, "failed")
    if result == "skipped":
        found, line = {}, f'skipped: {open(f"{stage}.skipped").read().strip()}'
    else:
        found, text = STAGES[stage]()
        line = f'{"ok" if result == "passed" else f"FAILED ({status})"}, {text}, {seconds} s'
    if result == "failed":
        line += "; " + " / ".join(tail(logs_of(stage, found)))
    print(f"{stage}: {line}", flush=True)
    summary = {"stages": {}}
    if os.path.exists("summary.json"):
        summary = json.load(open("summary.json"))
    summary["machine"] = machine(device)
    summary["stages"][stage] = {"result": result, "status": status, "seconds": seconds, "line": line, **found}
    results = [s["result"] for s in summary["stages"].values()]
    summary["counts"] = {r: results.count(r) for r in ("passed", "failed", "skipped")}
    with open("summary.json", "w") as out:
        json.dump(summary, out, indent=1)
    with open("summary.md", "w") as out:
        out.write(markdown(summary))


main()
