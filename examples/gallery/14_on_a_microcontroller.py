"""
A model on a microcontroller
============================

A fitted model leaves Python as a few files of C, with everything sized beforehand and
no memory allocated. This writes one, compiles it, and runs it beside ``predict``.
"""

import subprocess
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import mlat
from mlat.export import PlainModel, write_c
from mlat.synthetic import rotating_states

# %%
# Three sensors, five states would be a wristband; here four sensors and four states.

train = rotating_states(n_channels=4, noise=0.3, random_state=0)
test = rotating_states(n_channels=4, noise=0.3, random_state=1)
clf = mlat.StreamClassifier(width=8).fit(train)
folder = Path(tempfile.mkdtemp())

# %%
# The program reads steps and prints the number of each state.

PROGRAM = r"""
#include <stdio.h>
#include "mlat.h"
static mlat m;
int main(void) {
    float x[MLAT_CHANNELS];
    mlat_out out;
    mlat_init(&m);
    while (fread(x, sizeof(float), MLAT_CHANNELS, stdin) == MLAT_CHANNELS)
        printf("%d\n", mlat_push(&m, x, &out));
    return 0;
}
"""
sizes, same = [], []
for bits in (32, 16, 8):
    source = write_c(PlainModel.of(clf), bits=bits)
    for name, text in {**source.files(), "main.c": PROGRAM}.items():
        (folder / name).write_text(text)
    subprocess.run(
        ["cc", "-std=c99", "-Os", "main.c", "mlat.c", "-lm", "-o", "main"], cwd=folder, check=True
    )
    steps = test.values.astype(np.float32).tobytes()
    said = subprocess.run([folder / "main"], input=steps, stdout=subprocess.PIPE, check=True).stdout
    codes = np.array(said.split(), int)
    states = np.where(codes < 0, clf.unknown_, clf.classes_[codes])
    sizes.append(source.flash / 1024)
    same.append(100 * np.mean(states == clf.predict(test)))
    print(f"{bits} bits: {sizes[-1]:.0f} kB of tables, {same[-1]:.1f} % of the states as predict")

# %%

figure = Figure(figsize=(5, 3))
ax = figure.subplots()
ax.plot(sizes, same, "o-")
for bits, x, y in zip((32, 16, 8), sizes, same, strict=True):
    ax.annotate(f"{bits} bits", (x, y), textcoords="offset points", xytext=(6, -12))
ax.set(xlabel="kB of tables", ylabel="% of states as predict", ylim=(min(same) - 2, 100.5))
