/* What JavaScript calls: one stream for each instance of the module. */
#include "mlat.h"

#define EXPORTED(name) __attribute__((export_name(name)))

static mlat m;
static mlat_out out;
static mlat_real values[MLAT_CHANNELS];

EXPORTED("init") void js_init(void) { mlat_init(&m); }
EXPORTED("reset") void js_reset(void) { mlat_reset(&m); }
EXPORTED("teach") int js_teach(int state) { return mlat_teach(&m, state); }
EXPORTED("push") int js_push(void) { return mlat_push(&m, values, &out); }
EXPORTED("values") mlat_real *js_values(void) { return values; }
EXPORTED("why") int js_why(void) { return out.why; }
EXPORTED("proba") double js_proba(void) { return (double)out.proba; }
EXPORTED("distances") mlat_real *js_distances(void) { return out.distances; }
EXPORTED("probabilities") mlat_real *js_probabilities(void) { return out.probabilities; }
EXPORTED("n_channels") int js_n_channels(void) { return MLAT_CHANNELS; }
EXPORTED("n_states") int js_n_states(void) { return MLAT_STATES; }
EXPORTED("step_us") double js_step_us(void) { return MLAT_STEP_US; }
EXPORTED("real_bytes") int js_real_bytes(void) { return (int)sizeof(mlat_real); }
EXPORTED("state_name") const char *js_state_name(int i) { return mlat_state_names[i]; }
EXPORTED("channel_name") const char *js_channel_name(int i) { return mlat_channel_names[i]; }
