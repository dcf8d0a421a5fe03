"""The state of each step of a recording, by onnxruntime: python FILE.py recording.csv

The recording has a line of names, and a column for each channel of the model in its units.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(Path(__file__).with_name("/*GRAPH*/"))
notes = session.get_modelmeta().custom_metadata_map
states = [*json.loads(notes["states"]), ""]  # the last is that of -1: unknown
values = np.genfromtxt(sys.argv[1], delimiter=",", names=True)
values = np.stack([values[name] for name in values.dtype.names], axis=1)

kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64}
given = session.get_inputs()
kind = kinds[given[0].type]
if notes["kind"] == "stream":  # one step at a time, with what is remembered of the steps before
    memory = {one.name: np.zeros([1, *one.shape[1:]], kinds[one.type]) for one in given[1:]}
    names = ["state", *(f"next_{name}" for name in memory)]
    for step in values.astype(kind):
        state, *remembered = session.run(names, {"values": step[None], **memory})
        memory = dict(zip(memory, remembered, strict=True))
        print(states[state[0]])
else:
    size = int(notes["steps"])  # that a state follows from
    for n in range(1, len(values) + 1):
        last = values[None, max(0, n - size) : n].astype(kind)
        print(states[session.run(["state"], {"windows": last})[0][0]])
