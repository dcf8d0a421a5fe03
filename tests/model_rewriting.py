"""Model files with something wrong in them, and a checksum that is right."""

from __future__ import annotations

import hashlib
import json

import numpy as np
from safetensors.numpy import save

from mlat.base.checksummed import pack, unpack


def read_header(model):
    """The JSON that a model file begins with."""
    return unpack(model.read_bytes(), "no model").header


def rewrite(model, target, change):
    """The model with its header or arrays changed, and the checksum made right again."""
    header, arrays, _ = unpack(model.read_bytes(), "no model")
    tensors = dict(arrays)
    change(header, tensors)
    target.write_bytes(pack(header, tensors))
    return target


def rewrite_as_version_2(model, target, change=lambda header, tensors: None):
    """The model as version 2 wrote it: fields on one level, a checksum of the arrays only."""
    header, arrays, _ = unpack(model.read_bytes(), "no model")
    tensors = {name.removeprefix("0."): np.ascontiguousarray(a) for name, a in arrays.items()}
    (expert,) = header.pop("experts")
    header.pop("committee")
    header.pop("auto")
    header.pop("usual_step")  # it did not know of time
    header["confidence"].pop("soft")
    header |= {"version": 2, "metric": expert["metric"], "selection": None}
    header["whitened"] = expert["whitened"]
    change(header, tensors)
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].tobytes())
    header["sha256"] = digest.hexdigest()
    target.write_bytes(save(tensors, metadata={"mlat": json.dumps(header)}))
    return target


def _owner(header, name):
    """The model, or its first expert, whoever has the field."""
    expert = header["experts"][0]
    return expert if name in expert and name not in header else header


def put(name, value):
    def change(header, tensors):
        _owner(header, name)[name] = value

    return change


def put_inside(name, **values):
    """Other fields in a field that is an object."""

    def change(header, tensors):
        _owner(header, name)[name] |= values

    return change


def leave_out(name):
    return lambda header, tensors: _owner(header, name).pop(name)


def put_tensor(name, make):
    def change(header, tensors):
        tensors[name] = make(tensors[name])

    return change
