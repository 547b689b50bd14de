"""golden_compare.py FOLDER EXPECTED: fails unless both hold the same reference trajectories, up to rounding.

The order of additions in products depends on the processor, so the last digits may differ.
"""
import json
import math
import struct
import sys

import torch

TOLERANCE = 1e-9
TYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8}


def compare(got, expected, where):
    if isinstance(expected, dict):
        assert got.keys() == expected.keys(), where
        for key in expected:
            compare(got[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(got) == len(expected), where
        for i, (x, y) in enumerate(zip(got, expected)):
            compare(x, y, f"{where}.{i}")
    elif isinstance(expected, float):
        close = math.isclose(got, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        assert close, f"{where} is {got}, expected {expected}"
    else:
        assert got == expected, f"{where} is {got}, expected {expected}"


def tensors(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    return header, {
        name: torch.frombuffer(bytearray(data[slice(*entry["data_offsets"])]), dtype=TYPES[entry["dtype"]]).double()
        for name, entry in header.items()
        if name != "__metadata__"
    }


for name in ("moe_decoder", "encoder"):
    compare(*(json.load(open(f"{folder}/{name}.json")) for folder in sys.argv[1:]), name)
    (header, got), (expected_header, expected) = (tensors(f"{folder}/{name}.safetensors") for folder in sys.argv[1:])
    assert header == expected_header, f"{name}: the headers differ: {header}, expected {expected_header}"
    for key, y in expected.items():
        worst = (got[key] - y).abs().max().item()
        assert worst <= TOLERANCE * max(1.0, y.abs().max().item()), f"{name}, {key}: off by {worst}"
