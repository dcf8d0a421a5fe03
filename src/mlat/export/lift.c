
/* From channels to features: each step alone and its past. */

typedef struct {
    mlat_square mean, magnitude, deviation, differences, difference;
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
    mlat_square squares = 0, middle;
    int i;
    for (i = 0; i < n; i++) {
        const mlat_square value = held(m, i, channel);
        const mlat_square step = i + 1 < m->count ? value - held(m, i + 1, channel) : 0;
        s.mean += value;
        s.magnitude += value < 0 ? -value : value;
        s.differences += step * step;
        if (i == 0) {
            s.difference = finer(step);
        }
    }
    s.mean = mean_of(s.mean, n);
    s.magnitude = mean_of(s.magnitude, n);
    middle = down(s.mean, 4);
    for (i = 0; i < n; i++) {
        const mlat_square apart = held(m, i, channel) - middle;
        squares += apart * apart;
    }
    s.deviation = root_of_mean(squares, n);
    s.differences = root_of_mean(s.differences, n);
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
        const mlat_square now = finer((mlat_square)scaled[mlat_feature_channel[f]]);
        mlat_square value = 0;
        switch (mlat_feature_source[f]) {
        case 0: value = s->mean; break;
        case 1: value = s->magnitude; break;
        case 2: value = s->deviation; break;
        case 3: value = s->differences; break;
        case 4: value = s->difference; break;
        case 5: value = now; break;
        case 6: value = now < 0 ? -now : now; break;
        default: break; /* there is no other: what is not known is not exported */
        }
        if (mlat_feature_floor[f] > 0) {
            value = logarithm(value + mlat_feature_floor[f], 20);
        } else {
            value = finer(value);
        }
        features[f] = feature_of(value, f);
    }
}
