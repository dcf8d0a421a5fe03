"""The exported C as an Arduino library."""

from __future__ import annotations

from .c_source import CSource

PROPERTIES = """name=mlat_model
version=1.0.0
author=mlat
maintainer=mlat
sentence=The state of a sensor stream, one step at a time.
paragraph=A model that was learned by mlat and written by mlat export.
category=Data Processing
url=
architectures=*
includes=mlat.h
"""

SKETCH = """// Tells the state of a sensor stream, and learns a state from a key on the serial line.
#include <mlat.h>

static mlat model;

// Replace this by your sensor: one value for each channel, in the order of mlat_channel_names.
static void readSensor(mlat_real values[MLAT_CHANNELS]) {
  for (int c = 0; c < MLAT_CHANNELS; c++) {
    values[c] = analogRead(c);
  }
}

void setup() {
  Serial.begin(115200);
  mlat_init(&model);
}

void loop() {
  mlat_real values[MLAT_CHANNELS];
  mlat_out out;
  readSensor(values);
  if (mlat_push(&model, values, &out) >= 0) {
    Serial.println(mlat_state_names[out.state]);
  }
  if (Serial.available() > 0) {
    mlat_teach(&model, Serial.read() - '0');
  }
  delay(10);  // as many steps a second as the model was learned with
}
"""


def arduino_files(code: CSource) -> dict[str, str]:
    """The files of the library, by their places in its folder."""
    return {
        "library.properties": PROPERTIES,
        "src/mlat.h": code.header,
        "src/mlat.c": code.source,
        "examples/state/state.ino": SKETCH,
    }
