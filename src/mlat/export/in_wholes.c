/* Everything in whole numbers. QN is a number times 2^N. */

/* x / 2^n to the nearest. */
static int64_t down(int64_t x, int n)
{
    const int64_t half = n > 0 ? (int64_t)1 << (n - 1) : 0;
    if (n > 62) {
        return 0;
    }
    return x >= 0 ? (x + half) >> n : -((-x + half) >> n);
}

static uint32_t root(uint64_t x)
{
    uint64_t found = 0, bit = (uint64_t)1 << 62;
    while (bit > x) {
        bit >>= 2;
    }
    while (bit != 0) {
        if (x >= found + bit) {
            x -= found + bit;
            found = (found >> 1) + bit;
        } else {
            found >>= 1;
        }
        bit >>= 2;
    }
    return (uint32_t)found;
}

#define ONE ((int64_t)1 << 24)

/* The logarithm to base 2 of x > 0, Q24: one more digit by each squaring. */
static int64_t log_2(uint64_t x)
{
    uint64_t y = x;
    int64_t found, digit;
    int whole = 31;
    while (y >= (uint64_t)1 << 32) {
        y >>= 1;
        whole++;
    }
    while (y < (uint64_t)1 << 31) {
        y <<= 1;
        whole--;
    }
    found = whole * ONE;
    for (digit = ONE / 2; digit > 0; digit /= 2) {
        y = (y * y) >> 31;
        if (y >= (uint64_t)1 << 32) {
            y >>= 1;
            found += digit;
        }
    }
    return found;
}

#if MLAT_NEIGHBORS == 1 || MLAT_FILTERED
/* 2^x for x <= 0, from Q24 to Q30. */
static int64_t power_of_2(int64_t x)
{
    /* 2^(-1/2), 2^(-1/4), ... in Q31 */
    static const uint32_t roots[24] = {
        1518500250u, 1805811301u, 1969251188u, 2056437387u, 2101467502u, 2124350982u,
        2135885998u, 2141676973u, 2144578345u, 2146030505u, 2146756953u, 2147120270u,
        2147301951u, 2147392798u, 2147438222u, 2147460935u, 2147472292u, 2147477970u,
        2147480809u, 2147482228u, 2147482938u, 2147483293u, 2147483471u, 2147483559u};
    const int64_t away = -x;
    const int64_t whole = away / ONE;
    int64_t rest = away % ONE;
    uint64_t y = (uint64_t)1 << 31;
    int i;
    if (whole > 31) {
        return 0;
    }
    for (i = 0; i < 24; i++) {
        rest *= 2;
        if (rest >= ONE) {
            rest -= ONE;
            y = (y * roots[i] + ((uint64_t)1 << 30)) >> 31;
        }
    }
    return (int64_t)(y >> (whole + 1));
}
#endif

static mlat_real within(int64_t x)
{
    return x > 2147483647 ? 2147483647 : (mlat_real)x;
}

/* From channels to features: each step alone and its past. */

/* A value in deviations from the mean, Q16; returns 0 if there is none. */
static int scale(mlat_real value, int c, mlat_real *scaled)
{
    const int64_t apart = (int64_t)value - mlat_channel_mean[c];
    int64_t found;
    if (value == MLAT_NO_VALUE || apart > 2147483647 || apart < -2147483647) {
        return 0;
    }
    found = down(apart * mlat_channel_factor[c], mlat_channel_shift[c]);
    if (found > MLAT_EXTREME || found < -MLAT_EXTREME) {
        return 0;
    }
    *scaled = (mlat_real)found;
    return 1;
}

typedef struct {
    int64_t mean, magnitude, deviation, differences, difference; /* Q20 */
} statistics;

#if MLAT_REMEMBERS
static mlat_real held(const mlat *m, int back, int channel)
{
    return m->past[(m->at + MLAT_MEMORY - back) % MLAT_MEMORY][channel];
}

/* The root of a mean of squares, from Q32 to Q20. */
static int64_t mean_root(uint64_t squares, int n)
{
    if (squares < (uint64_t)1 << 54) {
        return root((squares << 8) / (uint64_t)n);
    }
    return (int64_t)root(squares / (uint64_t)n) * 16;
}

static statistics running(const mlat *m, int channel)
{
    statistics s = {0, 0, 0, 0, 0};
    const int n = m->count < MLAT_REACH ? m->count : MLAT_REACH;
    uint64_t squares = 0, steps = 0;
    int64_t middle;
    int i;
    for (i = 0; i < n; i++) {
        const int64_t value = held(m, i, channel);
        const int64_t step = i + 1 < m->count ? value - held(m, i + 1, channel) : 0;
        s.mean += value;
        s.magnitude += value < 0 ? -value : value;
        steps += (uint64_t)(step * step);
        if (i == 0) {
            s.difference = step * 16;
        }
    }
    s.mean = s.mean * 16 / n;
    s.magnitude = s.magnitude * 16 / n;
    middle = down(s.mean, 4);
    for (i = 0; i < n; i++) {
        const int64_t apart = held(m, i, channel) - middle;
        squares += (uint64_t)(apart * apart);
    }
    s.deviation = mean_root(squares, n);
    s.differences = mean_root(steps, n);
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
        const int64_t now = (int64_t)scaled[mlat_feature_channel[f]] * 16;
        int64_t value = 0;
        switch (mlat_feature_source[f]) {
        case 0: value = s->mean; break;
        case 1: value = s->magnitude; break;
        case 2: value = s->deviation; break;
        case 3: value = s->differences; break;
        case 4: value = s->difference; break;
        case 5: value = now; break;
        default: value = now < 0 ? -now : now; break;
        }
        if (mlat_feature_floor[f] > 0) {
            value = log_2((uint64_t)(value + mlat_feature_floor[f])) - 20 * ONE;
        } else {
            value *= 16;
        }
        /* Q24, into the unit in which this feature is stored */
        value = down((value - mlat_feature_mean[f]) * mlat_feature_factor[f],
                     mlat_feature_shift[f]);
        value = value > MLAT_LARGEST_X ? MLAT_LARGEST_X : value;
        features[f] = (mlat_real)(value < -MLAT_LARGEST_X ? -MLAT_LARGEST_X : value);
    }
}

/* Distances of an expert: (x - y)'M(x - y) = x'Mx - 2 (Mx)'y + y'My. */

typedef struct {
    int width, n_columns, n_lags, is_full, n_fast, n_ranges, n_slow_ranges;
    const unsigned short *columns;  /* which features it sees, those of every step first */
    const unsigned short *ranges;   /* the same as pairs: the first, and how many follow each other */
    const int32_t *metric;          /* (n_lags, n_columns, n_columns), or the full matrix */
    const mlat_stored_square *squares; /* y'My of each reference */
    int32_t weight;                 /* Q24 */
    int32_t factor;                 /* of a distance, to make it one in typical distances */
    int metric_shift, squares_shift, factor_shift;
} expert;

static const expert experts[MLAT_EXPERTS] = {
/*EXPERTS*/
};

/* matrix * column in row i, or with the matrix transposed */
static int64_t product(const int32_t *matrix, const mlat_real *column, int n, int i, int transposed)
{
    int64_t sum = 0;
    int j;
    for (j = 0; j < n; j++) {
        sum += (int64_t)(transposed ? matrix[j * n + i] : matrix[i * n + j]) * column[j];
    }
    return sum;
}

/* x, oldest step first, and u = Mx; returns x'u */
static int64_t prepare(const mlat *m, const expert *e, mlat_real *x, mlat_real *u)
{
    const int w = e->width, n = e->n_columns;
    int64_t sum = 0;
    int t, c, lag;
    for (t = 0; t < w; t++) {
        const mlat_real *step = m->window[(m->newest + MLAT_WIDTH - (w - 1 - t)) % MLAT_WIDTH];
        for (c = 0; c < n; c++) {
            x[t * n + c] = step[e->columns[c]];
        }
    }
    for (t = 0; t < w; t++) {
        for (c = 0; c < n; c++) {
            int64_t row;
            if (e->is_full) {
                row = product(e->metric, x, w * n, t * n + c, 0);
            } else {
                row = product(e->metric, x + t * n, n, c, 0);
                for (lag = 1; lag < e->n_lags; lag++) {
                    const int32_t *block = e->metric + (size_t)lag * (size_t)(n * n);
                    if (t >= lag) {
                        row += product(block, x + (t - lag) * n, n, c, 0);
                    }
                    if (t + lag < w) {
                        row += product(block, x + (t + lag) * n, n, c, 1);
                    }
                }
            }
            u[t * n + c] = (mlat_real)down(row, e->metric_shift);
        }
    }
    for (c = 0; c < w * n; c++) {
        sum += (int64_t)x[c] * u[c];
    }
    return down(sum, MLAT_X_BITS);
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
        mlat_square *v = m->v + (phase + t) / MLAT_EVERY * n_slow;
        for (c = 0; c < n_slow; c++) {
            const int64_t value = u[t * n + e->n_fast + c];
            v[c] += (MLAT_EVERY - past) * value;
            v[n_slow + c] += past * value;
        }
    }
    /* Where the last step is a knot, the next one is not looked at. */
    return (phase + e->width - 1) % MLAT_EVERY ? n_knots : n_knots - 1;
}

static int64_t knots_product(const mlat *m, const expert *e, int first, int n_knots)
{
    const mlat_stored *y = mlat_knots + (size_t)first * (size_t)(MLAT_FEATURES - MLAT_FAST);
    const mlat_square *v = m->v;
    int64_t dot = 0;
    int t, k, c;
    for (t = 0; t < n_knots; t++, y += MLAT_FEATURES - MLAT_FAST) {
        const unsigned short *range = e->ranges + 2 * e->n_ranges;
        for (k = 0; k < e->n_slow_ranges; k++, range += 2) {
            for (c = 0; c < range[1]; c++) {
                dot += v[c] * y[range[0] + c];
            }
            v += range[1];
        }
    }
    return dot / MLAT_EVERY;
}
#endif

static void search(mlat *m, const expert *e)
{
    const int w = e->width;
    mlat_real *x = m->x, *u = m->u;
    const int64_t own = prepare(m, e, x, u);
    int phase, r, t, c;
    nothing_near(m);
#if MLAT_SPARE > 0
    for (r = 0; r < m->n_taught; r++) {
        const int n = e->n_columns;
        int64_t dot = 0;
        for (t = 0; t < w; t++) {
            const mlat_real *step = m->taught[r][MLAT_WIDTH - w + t];
            for (c = 0; c < n; c++) {
                dot += (int64_t)u[t * n + c] * step[e->columns[c]];
            }
        }
        keep(m, m->taught_state[r],
             own - 2 * down(dot, MLAT_X_BITS) + m->taught_square[e - experts][r]);
    }
#endif
    for (phase = 0; phase < MLAT_EVERY; phase++) {
        const mlat_stored_square *square = e->squares;
#if MLAT_EVERY > 1
        const int n_knots = fold(m, e, u, phase);
#endif
        for (r = 0; r < MLAT_RUNS; r++) {
            int begin = mlat_run_start[r] + MLAT_WIDTH - w;
            const int end = begin + mlat_run_size[r];
            for (; begin < end; begin++, square++) {
                const mlat_stored *y = mlat_steps + (size_t)begin * (size_t)MLAT_FAST;
                const mlat_real *v = u;
                int64_t dot = 0;
                int k;
                if (begin % MLAT_EVERY != phase) {
                    continue;
                }
                for (t = 0; t < w; t++, y += MLAT_FAST) {
                    const unsigned short *range = e->ranges;
                    for (k = 0; k < e->n_ranges; k++, range += 2) {
                        for (c = 0; c < range[1]; c++) {
                            dot += (int64_t)v[c] * y[range[0] + c];
                        }
                        v += range[1];
                    }
                    v += e->n_columns - e->n_fast;
                }
#if MLAT_EVERY > 1
                dot += knots_product(m, e, begin / MLAT_EVERY, n_knots);
#endif
                keep(m, mlat_run_state[r],
                     own - 2 * dot + (int64_t)*square * ((int64_t)1 << e->squares_shift));
            }
        }
    }
}

/* A distance in typical ones, Q24, from its square. */
static int64_t distance_of(const expert *e, int64_t square)
{
    uint64_t x;
    int shift = e->factor_shift;
    if (square <= 0) {
        return 0;
    }
    x = (uint64_t)square;
    while (x < (uint64_t)1 << 60) {
        x <<= 2;
        shift++;
    }
    x = (uint64_t)root(x) * (uint64_t)e->factor;
    if (shift < 0) {
        return MLAT_FURTHEST;
    }
    x = (uint64_t)down((int64_t)x, shift);
    return x < (uint64_t)MLAT_FURTHEST ? (int64_t)x : MLAT_FURTHEST;
}

/* From distances to a state and how sure. */

/* Returns whether the window is like no reference. */
static int decide(mlat *m, mlat_out *out)
{
    int64_t nearness[MLAT_STATES]; /* logarithms of distances to base 2, Q24 */
    int64_t least = MLAT_HUGE, nearest = MLAT_HUGE;
    const int n_states = N_STATES(m);
    int e, s;
    for (s = 0; s < MLAT_STATES; s++) {
        nearness[s] = 0;
        out->distances[s] = 2147483647;
        out->probabilities[s] = 0;
    }
    for (e = 0; e < MLAT_EXPERTS; e++) {
        search(m, &experts[e]);
        for (s = 0; s < n_states; s++) {
            if (m->square[s] < MLAT_HUGE) {
                const int64_t distance = distance_of(&experts[e], m->square[s]);
                nearness[s] += down(
                    (log_2((uint64_t)(distance + MLAT_SOFT)) - 24 * ONE) * experts[e].weight, 24);
                out->distances[s] = within(distance >> 8);
                nearest = distance < nearest ? distance : nearest;
            } else {
                nearness[s] = MLAT_HUGE; /* no reference is left of a state that was taught */
            }
        }
    }
    out->state = 0;
    for (s = 0; s < n_states; s++) {
#if MLAT_EXPERTS > 1
        if (nearness[s] < 15 * ONE) { /* else more than an int32_t can tell */
            out->distances[s] = within(power_of_2(nearness[s] - 15 * ONE) * 2);
        } else {
            out->distances[s] = 2147483647;
        }
#endif
        if (nearness[s] < least) {
            least = nearness[s];
            out->state = s;
        }
    }
#if MLAT_EXPERTS > 1
    nearest = least;
#endif
    out->distance = out->distances[out->state];
#if MLAT_NEIGHBORS > 1
    {
        int64_t sums[MLAT_STATES];
        int votes[MLAT_STATES], i;
        for (s = 0; s < n_states; s++) {
            votes[s] = 0;
            sums[s] = 0;
        }
        for (i = 0; i < MLAT_NEIGHBORS; i++) {
            votes[m->near_state[i]]++;
            sums[m->near_state[i]] += distance_of(experts, m->near_square[i]);
        }
        out->state = m->near_state[0];
        for (s = 0; s < n_states; s++) {
            if (votes[s] > votes[out->state] ||
                (votes[s] == votes[out->state] &&
                 (sums[s] < sums[out->state] || (sums[s] == sums[out->state] && s < out->state)))) {
                out->state = s;
            }
            out->probabilities[s] = (mlat_real)(((int64_t)votes[s] * 65536) / MLAT_NEIGHBORS);
#if MLAT_FILTERED
            m->evidence[s] = log_2((uint64_t)(votes[s] + 1)) -
                             log_2((uint64_t)(MLAT_NEIGHBORS + n_states));
#endif
        }
    }
#else
    {
        int64_t weights[MLAT_STATES], total = 0;
        for (s = 0; s < n_states; s++) {
            weights[s] = 0;
            if (nearness[s] < MLAT_HUGE) {
                weights[s] = power_of_2(-down((nearness[s] - least) * MLAT_BETA, 16));
            }
            total += weights[s];
        }
        for (s = 0; s < n_states; s++) {
            out->probabilities[s] = (mlat_real)((weights[s] * 65536 + total / 2) / total);
#if MLAT_FILTERED
            m->evidence[s] = MLAT_NEVER;
            if (nearness[s] < MLAT_HUGE) {
                m->evidence[s] = -down((nearness[s] - least) * MLAT_BETA, 16) -
                                 (log_2((uint64_t)total) - 30 * ONE);
            }
#endif
        }
    }
#endif
    return MLAT_HAS_THRESHOLD && nearest > MLAT_THRESHOLD;
}

#if MLAT_FILTERED
/* In logarithms, so that nothing is too small. */
static void filter(mlat *m, mlat_out *out)
{
    int64_t after[MLAT_STATES], logs[MLAT_STATES], total = 0, most = MLAT_NEVER;
    const int n_states = N_STATES(m);
    const int32_t *transition = mlat_transition + transition_of(n_states);
    int a, b;
    for (b = 0; b < n_states; b++) {
        after[b] = 0;
        for (a = 0; a < n_states; a++) {
            after[b] += (int64_t)m->belief[a] * transition[a * n_states + b];
        }
        after[b] >>= 30;
        logs[b] = MLAT_NEVER;
        if (after[b] > 0 && m->evidence[b] > MLAT_NEVER) {
            logs[b] = log_2((uint64_t)after[b]) +
                      (m->fresh ? m->evidence[b] : down(m->evidence[b] * MLAT_TEMPERING, 24));
        }
        most = logs[b] > most ? logs[b] : most;
    }
    for (b = 0; b < n_states; b++) {
        if (most > MLAT_NEVER) {
            after[b] = logs[b] > MLAT_NEVER ? power_of_2(logs[b] - most) : 0;
        }
        total += after[b];
    }
    out->state = 0;
    for (b = 0; b < n_states; b++) {
        const int64_t share = (after[b] * ((int64_t)1 << 30) + total / 2) / total;
        m->belief[b] = (mlat_real)share;
        out->probabilities[b] = (mlat_real)(share >> 14);
        if (after[b] > after[out->state]) {
            out->state = b;
        }
    }
    m->fresh = 0;
}
#endif

