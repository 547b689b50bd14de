"""Tests of tools/gpu/summary.py: the peak of a step, processes without a report, and the log lines of a failed stage."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).resolve().parents[2] / "tools/gpu/summary.py"


def summary_of(stage, status, files):
    """Returns the line that summary.py prints for a folder with these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"machine.txt": "a card, 1, 2\n", **files}.items():
            pathlib.Path(folder, name).write_text(text)
        run = subprocess.run([sys.executable, SUMMARY, stage, str(status), "7", "cuda"], cwd=folder, text=True,
                             capture_output=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        assert run.returncode == 0, run.stderr
        return run.stdout


class Summary(unittest.TestCase):
    def test_the_peak_of_a_step_is_its_recorded_total(self):
        step = {"step_seconds": 0.5, "tokens_per_second": 8, "loss": 1, "router_max_load": 2,
                "memory_peak_bytes": {"parameter": 2**30, "gradient": 2**30, "held": 3 * 2**30, "total": 2 * 2**30}}
        lines = json.dumps(step) + "\n"
        out = summary_of("step", 0, {"step.run.jsonl": 5 * lines, "step.balanced.jsonl": 5 * lines})
        self.assertIn("run 500 ms, 8 tokens/s, peak 2.0 GiB; balanced 500 ms", out)

    def test_a_process_without_a_report_is_named(self):
        report = {"tests": 3, "failures": 0, "testsuites": []}
        out = summary_of("parity", 1, {"parity.0.json": json.dumps(report), "parity.not_run": "process 1 of 2: no memory\n"})
        self.assertIn("FAILED (1), 3 tests, 0 failed; process 1 of 2: no memory", out)

    def test_a_failed_stage_ends_with_the_lines_of_a_log_that_failed(self):
        line = "3 layouts in 5.5 s: {} mismatches; otherwise the worst difference is 2.6e-01, in x\n"
        out = summary_of("verify", 1, {"verify.bf16.log": line.format(2) + "repeat with: hexad verify a\n",
                                       "verify.f64.log": line.format(0) + "compared: 4 steps\n"})
        self.assertIn("repeat with: hexad verify a", out)
        self.assertNotIn("compared", out)


unittest.main()
