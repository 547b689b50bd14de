"""Writes the safetensors format: u64 header length, JSON header, then the tensors' bytes without gaps."""
import json
import struct

import torch

DTYPES = {torch.float64: "F64", torch.int32: "I32"}


def save(path, tensors):
    """Writes a dictionary of CPU tensors (float64 or int32, possibly strided) by name, in the dictionary's order."""
    header, payload, offset = {}, [], 0
    for name, tensor in tensors.items():
        data = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        payload.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data start at a multiple of 8 bytes
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(payload))
