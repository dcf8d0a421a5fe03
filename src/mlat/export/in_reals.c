/* From channels to features: each step alone and its past. */

/* A value in deviations from the mean; returns 0 if there is none. */
static int scale(mlat_real value, int c, mlat_real *scaled)
{
    if (!(value - value == 0)) { /* NaN or infinite */
        return 0;
    }
    *scaled = (value - mlat_channel_mean[c]) / mlat_channel_scale[c];
    return MLAT_ABS(*scaled) <= MLAT_EXTREME;
}

typedef struct {
    mlat_real mean, magnitude, deviation, differences, difference;
} statistics;

#if MLAT_REMEMBERS
static mlat_real held(const mlat *m, int back, int channel)
{
    return m->past[(m->at + MLAT_MEMORY - back) % MLAT_MEMORY][channel];
}

/* Over the last MLAT_REACH values, in two passes: nothing is left behind by values long gone. */
static statistics running(const mlat *m, int channel)
{
    statistics s = {0, 0, 0, 0, 0};
    const int n = m->count < MLAT_REACH ? m->count : MLAT_REACH;
    mlat_real squares = 0;
    int i;
    for (i = 0; i < n; i++) {
        const mlat_real value = held(m, i, channel);
        const mlat_real step = i + 1 < m->count ? value - held(m, i + 1, channel) : 0;
        s.mean += value;
        s.magnitude += MLAT_ABS(value);
        s.differences += step * step;
        if (i == 0) {
            s.difference = step;
        }
    }
    s.mean /= (mlat_real)n;
    s.magnitude /= (mlat_real)n;
    for (i = 0; i < n; i++) {
        const mlat_real apart = held(m, i, channel) - s.mean;
        squares += apart * apart;
    }
    s.deviation = MLAT_SQRT(squares / (mlat_real)n);
    s.differences = MLAT_SQRT(s.differences / (mlat_real)n);
    return s;
}
#endif

static void lift(mlat *m, const mlat_real *scaled, mlat_real *features)
{
    statistics of[MLAT_CHANNELS];
    int f;
#if MLAT_REMEMBERS
    int c;
    m->at = (m->at + 1) % MLAT_MEMORY;
    if (m->count <= MLAT_MEMORY) {
        m->count++;
    }
    for (c = 0; c < MLAT_CHANNELS; c++) {
        m->past[m->at][c] = scaled[c];
    }
    for (c = 0; c < MLAT_CHANNELS; c++) {
        of[c] = running(m, c);
    }
#else
    (void)m;
    memset(of, 0, sizeof of);
#endif
    for (f = 0; f < MLAT_FEATURES; f++) {
        const statistics *s = &of[mlat_feature_channel[f]];
        const mlat_real now = scaled[mlat_feature_channel[f]];
        mlat_real value = 0;
        switch (mlat_feature_source[f]) {
        case 0: value = s->mean; break;
        case 1: value = s->magnitude; break;
        case 2: value = s->deviation; break;
        case 3: value = s->differences; break;
        case 4: value = s->difference; break;
        case 5: value = now; break;
        default: value = MLAT_ABS(now); break;
        }
        if (mlat_feature_floor[f] > 0) {
            value = MLAT_LOG(value + mlat_feature_floor[f]);
        }
        features[f] = (value - mlat_feature_mean[f]) / mlat_feature_scale[f];
    }
}

/* Distances of an expert: (x - y)'M(x - y) = x'Mx - 2 (Mx)'y + y'My. */

typedef struct {
    int width, n_columns, n_lags, is_full, n_fast, n_ranges, n_slow_ranges;
    const unsigned short *columns;  /* which features it sees, those of every step first */
    const unsigned short *ranges;   /* the same as pairs: the first, and how many follow each other */
    const mlat_real *metric;        /* (n_lags, n_columns, n_columns), or the full matrix */
    const mlat_stored_square *squares; /* y'My of each reference */
    mlat_real weight, typical, square_unit;
} expert;

static const expert experts[MLAT_EXPERTS] = {
/*EXPERTS*/
};

/* row + matrix * column, or with the matrix transposed */
static void add_product(mlat_real *row, const mlat_real *matrix, const mlat_real *column, int n,
                        int transposed)
{
    int i, j;
    for (i = 0; i < n; i++) {
        mlat_real sum = 0;
        for (j = 0; j < n; j++) {
            sum += (transposed ? matrix[j * n + i] : matrix[i * n + j]) * column[j];
        }
        row[i] += sum;
    }
}

/* x, oldest step first, and u = Mx; returns x'u */
static mlat_real prepare(const mlat *m, const expert *e, mlat_real *x, mlat_real *u)
{
    const int w = e->width, n = e->n_columns;
    mlat_real sum = 0;
    int t, c, lag;
    for (t = 0; t < w; t++) {
        const mlat_real *step = m->window[(m->newest + MLAT_WIDTH - (w - 1 - t)) % MLAT_WIDTH];
        for (c = 0; c < n; c++) {
            x[t * n + c] = step[e->columns[c]];
            u[t * n + c] = 0;
        }
    }
    if (e->is_full) {
        add_product(u, e->metric, x, w * n, 0);
    } else {
        for (t = 0; t < w; t++) {
            add_product(u + t * n, e->metric, x + t * n, n, 0);
            for (lag = 1; lag < e->n_lags; lag++) {
                const mlat_real *block = e->metric + (size_t)lag * (size_t)(n * n);
                if (t >= lag) {
                    add_product(u + t * n, block, x + (t - lag) * n, n, 0);
                }
                if (t + lag < w) {
                    add_product(u + t * n, block, x + (t + lag) * n, n, 1);
                }
            }
        }
    }
    for (c = 0; c < w * n; c++) {
        sum += x[c] * u[c];
    }
    return sum;
}

/* The sum of products of numbers and rows of a table, in ranges of its columns. */
static mlat_real rows_product(const mlat_stored *table, int first, int n_rows, int row_size,
                              const unsigned short *ranges, int n_ranges, const mlat_real *v,
                              int skipped)
{
    const mlat_stored *row = table + (size_t)first * (size_t)row_size;
    mlat_real dot = 0;
    int t, k, c;
    for (t = 0; t < n_rows; t++, row += row_size) {
        const unsigned short *range = ranges;
        for (k = 0; k < n_ranges; k++, range += 2) {
            const mlat_stored *y = row + range[0];
            for (c = 0; c < range[1]; c++) {
                dot += v[c] * (mlat_real)y[c];
            }
            v += range[1];
        }
        v += skipped;
    }
    return dot;
}

#if MLAT_EVERY > 1
/* The sums of u by which knots are multiplied, for windows that begin so long after a knot. */
static int fold(mlat *m, const expert *e, const mlat_real *u, int phase)
{
    const int n = e->n_columns, n_slow = n - e->n_fast;
    const int n_knots = (phase + e->width - 1) / MLAT_EVERY + 2;
    int t, c;
    for (c = 0; c < n_knots * n_slow; c++) {
        m->v[c] = 0;
    }
    for (t = 0; t < e->width; t++) {
        const int past = (phase + t) % MLAT_EVERY;
        const mlat_real share = (mlat_real)past / (mlat_real)MLAT_EVERY;
        mlat_real *v = m->v + (phase + t) / MLAT_EVERY * n_slow;
        for (c = 0; c < n_slow; c++) {
            const mlat_real value = u[t * n + e->n_fast + c];
            v[c] += (1 - share) * value;
            v[n_slow + c] += share * value;
        }
    }
    /* Where the last step is a knot, the next one is not looked at. */
    return (phase + e->width - 1) % MLAT_EVERY ? n_knots : n_knots - 1;
}
#endif

static void search(mlat *m, const expert *e)
{
    const int w = e->width, n = e->n_columns;
    mlat_real *x = m->x, *u = m->u;
    const mlat_real own = prepare(m, e, x, u);
    int phase, r, t, c;
    nothing_near(m);
#if MLAT_SPARE > 0
    for (r = 0; r < m->n_taught; r++) {
        mlat_real dot = 0;
        for (t = 0; t < w; t++) {
            const mlat_real *step = m->taught[r][MLAT_WIDTH - w + t];
            for (c = 0; c < n; c++) {
                dot += u[t * n + c] * step[e->columns[c]];
            }
        }
        keep(m, m->taught_state[r], own - 2 * dot + m->taught_square[e - experts][r]);
    }
#endif
    /* The unit of each stored feature goes into u, so that stored numbers are used as they are. */
    for (t = 0; t < w; t++) {
        for (c = 0; c < n; c++) {
            u[t * n + c] *= mlat_unit[e->columns[c]];
        }
    }
    for (phase = 0; phase < MLAT_EVERY; phase++) {
        const mlat_stored_square *square = e->squares;
#if MLAT_EVERY > 1
        const int n_knots = fold(m, e, u, phase);
#endif
        for (r = 0; r < MLAT_RUNS; r++) {
            int begin = mlat_run_start[r] + MLAT_WIDTH - w;
            const int end = begin + mlat_run_size[r];
            for (; begin < end; begin++, square++) {
                mlat_real dot;
                if (begin % MLAT_EVERY != phase) {
                    continue;
                }
                dot = rows_product(mlat_steps, begin, w, MLAT_FAST, e->ranges, e->n_ranges, u,
                                   n - e->n_fast);
#if MLAT_EVERY > 1
                dot += rows_product(mlat_knots, begin / MLAT_EVERY, n_knots,
                                    MLAT_FEATURES - MLAT_FAST, e->ranges + 2 * e->n_ranges,
                                    e->n_slow_ranges, m->v, 0);
#endif
                keep(m, mlat_run_state[r],
                     own - 2 * dot + (mlat_real)*square * e->square_unit);
            }
        }
    }
}

/* From distances to a state and how sure. */

/* Returns whether the window is like no reference. */
static int decide(mlat *m, mlat_out *out)
{
    mlat_real nearness[MLAT_STATES]; /* logarithms of distances */
    mlat_real least = MLAT_HUGE, total = 0;
    const int n_states = N_STATES(m);
    int e, s;
    for (s = 0; s < MLAT_STATES; s++) {
        nearness[s] = 0;
        out->distances[s] = MLAT_HUGE;
        out->probabilities[s] = 0;
    }
    for (e = 0; e < MLAT_EXPERTS; e++) {
        search(m, &experts[e]);
        for (s = 0; s < n_states; s++) {
            const mlat_real square = m->square[s] > 0 ? m->square[s] : 0;
            if (square < MLAT_HUGE) {
                const mlat_real distance = MLAT_SQRT(square);
                nearness[s] +=
                    experts[e].weight * MLAT_LOG(distance / experts[e].typical + MLAT_SOFT);
                out->distances[s] = distance;
            } else {
                nearness[s] = MLAT_HUGE; /* no reference is left of a state that was taught */
            }
        }
    }
    for (s = 0; s < n_states; s++) {
#if MLAT_EXPERTS > 1
        out->distances[s] = nearness[s] < MLAT_HUGE ? MLAT_EXP(nearness[s]) : MLAT_HUGE;
#endif
        if (nearness[s] < least) {
            least = nearness[s];
            out->state = s;
        }
    }
    out->distance = out->distances[out->state];
#if MLAT_NEIGHBORS > 1
    {
        mlat_real sums[MLAT_STATES];
        int votes[MLAT_STATES], i;
        (void)total;
        for (s = 0; s < n_states; s++) {
            votes[s] = 0;
            sums[s] = 0;
        }
        for (i = 0; i < MLAT_NEIGHBORS; i++) {
            const mlat_real square = m->near_square[i] > 0 ? m->near_square[i] : 0;
            votes[m->near_state[i]]++;
            sums[m->near_state[i]] += MLAT_SQRT(square);
        }
        out->state = m->near_state[0];
        for (s = 0; s < n_states; s++) {
            if (votes[s] > votes[out->state] ||
                (votes[s] == votes[out->state] &&
                 (sums[s] < sums[out->state] || (!(sums[out->state] < sums[s]) && s < out->state)))) {
                out->state = s;
            }
            out->probabilities[s] = (mlat_real)votes[s] / (mlat_real)MLAT_NEIGHBORS;
        }
        out->distance = MLAT_SQRT(m->near_square[0] > 0 ? m->near_square[0] : 0);
    }
#else
    for (s = 0; s < n_states; s++) {
        out->probabilities[s] = MLAT_EXP(-MLAT_BETA * (nearness[s] - least));
        total += out->probabilities[s];
    }
    for (s = 0; s < n_states; s++) {
        out->probabilities[s] /= total;
    }
#endif
    return MLAT_HAS_THRESHOLD && out->distance > MLAT_THRESHOLD;
}

#if MLAT_FILTERED
static void filter(mlat *m, mlat_out *out)
{
    mlat_real after[MLAT_STATES], seen[MLAT_STATES], total = 0;
    const int n_states = N_STATES(m);
    const mlat_real *transition = mlat_transition + transition_of(n_states);
    int a, b;
    for (b = 0; b < n_states; b++) {
        mlat_real p = out->probabilities[b];
#if MLAT_NEIGHBORS > 1
        p = (p * MLAT_NEIGHBORS + 1) / (mlat_real)(MLAT_NEIGHBORS + n_states);
#endif
        seen[b] = m->fresh ? p : (p > 0 ? MLAT_EXP(MLAT_TEMPERING * MLAT_LOG(p)) : 0);
        after[b] = 0;
        for (a = 0; a < n_states; a++) {
            after[b] += m->belief[a] * transition[a * n_states + b];
        }
        total += after[b] * seen[b];
    }
    if (total > 0) {
        for (b = 0; b < n_states; b++) {
            after[b] *= seen[b];
        }
    } else {
        for (b = 0; b < n_states; b++) {
            total += after[b];
        }
    }
    out->state = 0;
    for (b = 0; b < n_states; b++) {
        m->belief[b] = out->probabilities[b] = after[b] / total;
        if (out->probabilities[b] > out->probabilities[out->state]) {
            out->state = b;
        }
    }
    m->fresh = 0;
}
#endif

