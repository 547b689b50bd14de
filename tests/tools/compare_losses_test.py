"""Tests of tools/gpu/compare_losses.py: runs that agree, and runs that share no step."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/gpu/compare_losses.py"


def run_of(steps, loss=1.0):
    return "".join(json.dumps({"step": s, "step_seconds": 1, "loss": loss, "grad_norm": 1, "aux_loss": 0}) + "\n"
                   for s in steps)


def compared(argument, files):
    """Returns the exit status and the lines of compare_losses.py for a folder with these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            pathlib.Path(folder, name).write_text(text)
        run = subprocess.run([sys.executable, SCRIPT, argument], cwd=folder, text=True, capture_output=True,
                             env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        assert not run.stderr, run.stderr
        return run.returncode, [json.loads(line) for line in run.stdout.splitlines()]


class Ways(unittest.TestCase):
    def good(self, way, status):
        found, lines = compared("--ways", {"ways.plain.jsonl": run_of([1, 2]), "ways.a.jsonl": way})
        self.assertEqual(found, status)
        return lines[0]["good"]

    def test_equal_steps_agree(self):
        self.assertTrue(self.good(run_of([1, 2]), 0))
        self.assertTrue(self.good(run_of([2]), 0))

    def test_other_losses_are_a_failure(self):
        self.assertFalse(self.good(run_of([1, 2], 1.5), 1))

    def test_steps_that_the_plain_run_lacks_are_a_failure(self):
        self.assertFalse(self.good(run_of([2, 3]), 1))
        self.assertFalse(self.good(run_of([3]), 1))
        self.assertFalse(self.good("", 1))


class Devices(unittest.TestCase):
    def good(self, cpu, card, status):
        files = {f"train.{precision}.{device}.jsonl": text
                 for precision in ("f64", "f32", "bf16") for device, text in (("cpu", cpu), ("cuda", card))}
        found, lines = compared("cuda", files)
        self.assertEqual(found, status)
        return [line["good"] for line in lines]

    def test_equal_runs_agree(self):
        self.assertEqual(self.good(run_of([1, 2]), run_of([1, 2]), 0), 3 * [True])

    def test_a_run_with_fewer_steps_is_a_failure(self):
        self.assertEqual(self.good(run_of([1, 2]), run_of([1]), 1), 3 * [False])
        self.assertEqual(self.good(run_of([1, 2]), "", 1), 3 * [False])
        self.assertEqual(self.good("", "", 1), 3 * [False])


unittest.main()
