/* A stream classifier: the state of a sensor stream, one step at a time.
 *
 * SPDX-License-Identifier: BSD-3-Clause, of what is not the model's numbers.
 * Written by `mlat export`, of the model "/*MODEL*/".
 * Nothing is allocated, and nothing but this struct is changed:
 *
 *     static mlat m;                          as many as there are streams
 *     mlat_out out;
 *     mlat_init(&m);
 *     if (mlat_push(&m, values, &out) >= 0)   a step: MLAT_CHANNELS values, /*MISSING*/ where one is missing
 *         puts(mlat_state_names[out.state]);
 */
#ifndef MLAT_H
#define MLAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*SIZES*/

/*TYPES*/

/* Why a state is unknown. */
#define MLAT_KNOWN 0
#define MLAT_FILLING 1 /* the stream has only begun */
#define MLAT_MISSING 2 /* a value is missing, or the window is not full since one was */
#define MLAT_GAP 3     /* the window is not full since mlat_reset */
#define MLAT_FAR 4     /* the window is like no reference */
#define MLAT_DEAD 5    /* a channel has been constant for far longer than ever in training */

#define MLAT_UNKNOWN (-1)

typedef struct {
    int state;            /* from 0, or MLAT_UNKNOWN */
    int why;              /* MLAT_KNOWN, or why not */
    mlat_real proba;      /* of that state */
    mlat_real distance;   /* to the nearest reference */
    mlat_real distances[MLAT_STATES];
    mlat_real probabilities[MLAT_STATES];
#if MLAT_DEAD_CHANNELS
    int channel;          /* the dead one, or -1 */
#endif
} mlat_out;

#if !MLAT_NARROW
typedef mlat_real mlat_factor;
#elif defined(__ARM_FEATURE_SIMD32)
typedef int16_t mlat_factor;
#else
typedef int32_t mlat_factor; /* whose sign needs no instruction of its own */
#endif

/* What is remembered of a stream. */
typedef struct {
    mlat_real window[MLAT_KEPT][MLAT_FEATURES];
    mlat_real x[MLAT_LARGEST], u[MLAT_LARGEST];
    mlat_square square[MLAT_STATES];
#if MLAT_PARTS > 0
    mlat_square parts[MLAT_PARTS];
#endif
    mlat_factor factors[MLAT_LARGEST + 3 * MLAT_ROWS];
#if MLAT_SUMS > 0
    mlat_square sums[MLAT_SUMS];
    int wild[MLAT_EXPERTS];
#endif
    mlat_real last[MLAT_CHANNELS];
    int n_held[MLAT_CHANNELS];
    int newest, n_steps, why, at, count;
    mlat_real past[MLAT_MEMORY][MLAT_CHANNELS];
#if MLAT_NEIGHBORS > 1
    mlat_square near_square[MLAT_NEIGHBORS];
    int near_state[MLAT_NEIGHBORS];
#endif
#if MLAT_FILTERED
    mlat_real belief[MLAT_STATES];
    mlat_square evidence[MLAT_STATES];
    int fresh;
#endif
#if MLAT_DEAD_CHANNELS
    mlat_real still[MLAT_CHANNELS];
    int still_for[MLAT_CHANNELS];
#endif
#if MLAT_NEW_STATES > 0
    int n_states;
#endif
#if MLAT_SPARE > 0
    mlat_real taught[MLAT_SPARE][MLAT_WIDTH][MLAT_FEATURES];
    mlat_square taught_square[MLAT_EXPERTS][MLAT_SPARE];
#if MLAT_FORESTS > 0
    mlat_point taught_points[MLAT_SPARE][MLAT_POINTS];
#endif
    int taught_state[MLAT_SPARE], n_taught, next_taught;
#endif
} mlat;

extern const char mlat_model[]; /* which model it is */
extern const char *const mlat_state_names[MLAT_STATES];
extern const char *const mlat_channel_names[MLAT_CHANNELS];

/* Before the first step. */
void mlat_init(mlat *m);

/* A reading of a sensor as a step has it. */
#ifdef MLAT_NO_VALUE
/* Of a whole number; MLAT_NO_VALUE where it is too large. A value with a fraction has to be multiplied
 * by 2^mlat_input_bits[channel] before it is rounded. */
mlat_real mlat_reading(int channel, int32_t reading);
#else
#define mlat_reading(channel, reading) ((mlat_real)(reading))
#endif

/* One step; returns the state or MLAT_UNKNOWN. */
int mlat_push(mlat *m, const mlat_real values[MLAT_CHANNELS], mlat_out *out);

/* After a gap in time: the window begins again. What was taught is kept. */
void mlat_reset(mlat *m);

/* Make a reference of the last window; the oldest taught one makes room. The next new state is the
 * one after those that can be told already. Returns 0 if there is no full window, no such state or no
 * room at all. */
int mlat_teach(mlat *m, int state);

#ifdef __cplusplus
}
#endif

#endif
