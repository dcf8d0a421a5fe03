/* Reads steps from standard input as doubles, and writes of each its state, why and distances. */
#include <math.h>
#include <stdio.h>
#include "mlat.h"

static mlat m;

int main(void)
{
    double row[MLAT_CHANNELS + 1]; /* first what to do: 0 push, 1 reset, 2 + s teach state s */
    mlat_init(&m);
    while (fread(row, sizeof row, 1, stdin) == 1) {
        mlat_real values[MLAT_CHANNELS];
        mlat_out out;
        double told[3 + 2 * MLAT_STATES];
        int c, what = (int)row[0];
        if (what == 1) {
            mlat_reset(&m);
            continue;
        }
        if (what >= 2) {
            if (!mlat_teach(&m, what - 2)) {
                return 3;
            }
            continue;
        }
        for (c = 0; c < MLAT_CHANNELS; c++) {
#ifdef MLAT_NO_VALUE
            const double whole = floor(ldexp(row[1 + c], mlat_input_bits[c]) + 0.5);
            values[c] = whole > -2147483648.0 && whole < 2147483648.0 ? (mlat_real)whole
                                                                      : MLAT_NO_VALUE;
#else
            values[c] = (mlat_real)row[1 + c];
#endif
        }
        told[0] = mlat_push(&m, values, &out);
        told[1] = out.why;
#ifdef MLAT_NO_VALUE
#define TOLD(x) ((double)(x) / 65536)
#else
#define TOLD(x) ((double)(x))
#endif
        told[2] = TOLD(out.distance);
        for (c = 0; c < MLAT_STATES; c++) {
            told[3 + c] = TOLD(out.distances[c]);
            told[3 + MLAT_STATES + c] = TOLD(out.probabilities[c]);
        }
        fwrite(told, sizeof told, 1, stdout);
    }
    return 0;
}
