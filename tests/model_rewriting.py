"""Model files with something wrong in them, and a checksum that is right."""

from __future__ import annotations

import json
import struct

from safetensors.numpy import load_file, save

from mlat.classifier.model_file import checksum


def read_header(model):
    """The JSON that a model file begins with."""
    raw = model.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    return json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["mlat"])


def rewrite(model, target, change):
    """The model with its header or arrays changed, and the checksum made right again."""
    header = read_header(model)
    tensors = load_file(model)
    change(header, tensors)
    if "sha256" in header:
        header["sha256"] = checksum(tensors)
    target.write_bytes(save(tensors, metadata={"mlat": json.dumps(header)}))
    return target


def put(name, value):
    def change(header, tensors):
        header[name] = value

    return change


def put_tensor(name, make):
    def change(header, tensors):
        tensors[name] = make(tensors[name])

    return change
