"""
An LSL session recorded and replayed
====================================

A device that speaks the Lab Streaming Layer is watched live while its session is recorded. Played
again later, the recording gives the same states: what was seen can be looked into.

Needs ``pip install 'mlat[live,xdf]'``.
"""

import asyncio
import os
import struct
import tempfile
from pathlib import Path

import numpy as np

import mlat
from mlat import plots
from mlat.live.sources import open_source
from mlat.live.sources.source import Arrival
from mlat.synthetic import rotating_states

folder = Path(tempfile.mkdtemp())
# Streams are found on this machine only. A laboratory does without this file.
(folder / "lsl.cfg").write_text(
    "[ports]\nIPv6 = disable\n[multicast]\nResolveScope = machine\n"
    "[lab]\nKnownPeers = {127.0.0.1}\n[log]\nlevel = -3\n"
)
os.environ["LSLAPICFG"] = str(folder / "lsl.cfg")

import pylsl  # noqa: E402
import pyxdf  # noqa: E402, F401  (reads the recording below)

RATE = 50
train = rotating_states(n_channels=4, noise=0.3, random_state=0)
clf = mlat.StreamClassifier(width=16, metric="mlat").fit(train)
clf.save(folder / "glove.mlat")

# %%
# The device, here a glove with four sensors that we play ourselves, and a program that listens.

glove = rotating_states(n_channels=4, noise=0.3, random_state=1)
info = pylsl.StreamInfo("Glove", "Motion", 4, RATE, "double64", "glove-1")
outlet = pylsl.StreamOutlet(info)
inlet = pylsl.StreamInlet(pylsl.resolve_byprop("name", "Glove", timeout=20)[0])
inlet.open_stream(timeout=20)
outlet.wait_for_consumers(20)
begin = pylsl.local_clock()
for step, values in enumerate(glove.values):
    outlet.push_sample(values.tolist(), begin + step / RATE)

# %%
# The listener asks the model for each sample and keeps what it got.

session = clf.live()
rows, times, live = [], [], []
while len(rows) < len(glove):
    samples, stamps = inlet.pull_chunk(timeout=1.0)
    rows += samples
    times += stamps
    if samples:
        live += [prediction.state for prediction in session.push(np.array(samples))]
print(f"{len(rows)} samples, {np.mean(np.array(live[16:]) == glove.states[16:]):.0%} right")

# %%
# LabRecorder writes sessions as XDF. This is what such a file consists of: chunks with a length, a
# tag and a content.


def chunk(tag, content):
    body = struct.pack("<H", tag) + content
    return b"\x04" + struct.pack("<I", len(body)) + body


names = "".join(f"<channel><label>{name}</label></channel>" for name in glove.channels)
header = (
    '<?xml version="1.0"?><info><name>Glove</name><type>Motion</type>'
    f"<channel_count>4</channel_count><nominal_srate>{RATE}</nominal_srate>"
    "<channel_format>double64</channel_format><created_at>0</created_at>"
    f"<desc><channels>{names}</channels></desc></info>"
)
number = struct.pack("<I", 1)
samples = b"".join(
    b"\x08" + struct.pack("<5d", time, *row) for time, row in zip(times, rows, strict=True)
)
(folder / "session.xdf").write_bytes(
    b"XDF:"
    + chunk(1, b'<?xml version="1.0"?><info><version>1.0</version></info>')
    + chunk(2, number + header.encode())
    # How far the device's clock was ahead, at the beginning and at the end: it is the same one.
    + b"".join(chunk(4, number + struct.pack("<2d", at, 0.0)) for at in (times[0], times[-1]))
    + chunk(3, number + b"\x04" + struct.pack("<I", len(rows)) + samples)
    + chunk(6, number + b'<?xml version="1.0"?><info></info>')
)

# %%
# Played as fast as it goes. ``mlat live glove.mlat --source replay:session.xdf`` does the same at
# the pace of the session, with a page to look at.


async def replay(path):
    model, states = mlat.load(folder / "glove.mlat").live(), []
    source = open_source(f"replay:{path}@max")
    await source.open(clf.channels_)
    async for event in source.events():
        if isinstance(event, Arrival):
            states += [prediction.state for prediction in model.push(event.steps.values)]
    await source.close()
    return states


replayed = asyncio.run(replay(folder / "session.xdf"))
assert replayed == live
figure = plots.plot_stream(glove, predicted={"live": live, "replayed": replayed})
# sphinx_gallery_thumbnail_path = 'images/gallery/10_lsl_recorded_and_replayed-1.png'
