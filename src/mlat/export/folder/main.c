/* Reads steps as lines of text, one value for each channel and nothing or nan where one is missing,
 * and prints the state of each; with a second column of expected states it checks them instead:
 *
 *     ./lines < recording.csv          prints states
 *     ./lines --check < vectors.csv    counts those that differ from the last column
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlat.h"

static mlat m;

/* The next value of a line, and where it ends; NaN where there is none. */
static double next_value(char **at)
{
    char *end;
    double value = strtod(*at, &end);
    if (end == *at) {
        value = NAN;
    }
    end += strcspn(end, ",; \t\r\n");
    *at = *end ? end + 1 : end;
    return value;
}

static mlat_real as_step(double value, int channel)
{
#ifdef MLAT_NO_VALUE
    const double whole = floor(ldexp(value, mlat_input_bits[channel]) + 0.5);
    return whole > -2147483648.0 && whole < 2147483648.0 ? (mlat_real)whole : MLAT_NO_VALUE;
#else
    (void)channel;
    return (mlat_real)value;
#endif
}

int main(int argc, char **argv)
{
    const int check = argc > 1 && strcmp(argv[1], "--check") == 0;
    static char line[65536];
    long n_steps = 0, n_checked = 0, n_wrong = 0;
    mlat_init(&m);
    while (fgets(line, sizeof line, stdin)) {
        mlat_real values[MLAT_CHANNELS];
        mlat_out out;
        char *at = line;
        int c, state;
        if (line[0] == '#') {
            continue;
        }
        for (c = 0; c < MLAT_CHANNELS; c++) {
            values[c] = as_step(next_value(&at), c);
        }
        state = mlat_push(&m, values, &out);
        n_steps++;
        if (!check) {
            puts(state < 0 ? "" : mlat_state_names[state]);
        } else if (*at != '?') { /* a near-tie, which the last digit of a processor may decide */
            n_checked++;
            if (state != (int)strtol(at, NULL, 10)) {
                n_wrong++;
                printf("step %ld: state %d, expected %s", n_steps, state, at);
            }
        }
    }
    if (check) {
        printf("%ld of %ld states are as expected\n", n_checked - n_wrong, n_checked);
    }
    return n_wrong > 0 || (check && n_checked == 0);
}
