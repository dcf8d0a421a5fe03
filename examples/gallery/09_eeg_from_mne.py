"""
EEG from MNE
============

A recording of MNE with annotations is a labelled stream: the annotations are the states.
"""

import mne
import numpy as np

import mlat
from mlat import plots

# %%
# Two minutes of four channels at 64 Hz, with eyes closed every other ten seconds: then the alpha
# rhythm, 10 Hz, is strong at the back of the head.

mne.set_log_level("ERROR")
rng = np.random.default_rng(0)
rate, seconds = 64, 120
time = np.arange(rate * seconds) / rate
closed = (time // 10) % 2 == 1
alpha = np.sin(2 * np.pi * 10 * time + np.cumsum(rng.normal(scale=0.05, size=len(time))))
values = 8e-6 * rng.normal(size=(4, len(time)))
values[2:] += 12e-6 * alpha * closed
raw = mne.io.RawArray(values, mne.create_info(["Fp1", "Fp2", "O1", "O2"], rate, "eeg"))
onsets = np.arange(0, seconds, 10)
raw.set_annotations(mne.Annotations(onsets, 10, ["open", "closed"] * (len(onsets) // 2)))

# %%
# The first minute to learn from, the second to try it on.

train = mlat.read_stream(raw.copy().crop(0, 60, include_tmax=False), label="annotation")
test = mlat.read_stream(raw.copy().crop(60, None), label="annotation")
clf = mlat.StreamClassifier(width=32).fit(train)
print(f"{clf.score(test):.0%} of the steps right")
figure = plots.plot_timeline(test, clf.predict(test))
# sphinx_gallery_thumbnail_path = 'images/gallery/09_eeg_from_mne-1.png'
