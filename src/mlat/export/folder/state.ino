// Tells the state of a sensor stream, one line for each step.
#include <mlat.h>

static mlat model;
static unsigned long last;

// Replace analogRead by your sensor, whose readings are in the units that the model was learned in:
// one value for each channel, in the order of mlat_channel_names.
static void readSensor(mlat_real values[MLAT_CHANNELS]) {
  for (int c = 0; c < MLAT_CHANNELS; c++) {
    values[c] = mlat_reading(c, analogRead(c));
  }
}

void setup() {
  Serial.begin(115200);
  mlat_init(&model);
  last = micros();
}

void loop() {
  mlat_real values[MLAT_CHANNELS];
  mlat_out out;
  readSensor(values);
  if (mlat_push(&model, values, &out) >= 0) {
    Serial.println(mlat_state_names[out.state]);
  }
#if MLAT_SPARE > 0  // there is room for what is taught: a digit on the serial line is a state
  if (Serial.available() > 0) {
    mlat_teach(&model, Serial.read() - '0');
  }
#endif
  const unsigned long step = MLAT_STEP_US;  // as in training; 0 where the model does not know it
  while (micros() - last < step) {
  }
  last += step;
}
