
/* From channels to features: each step alone and its past. */

/* What a feature takes of a step, so long ago and there in the past. */
static mlat_square taken(const mlat *m, int f, int back, int at)
{
    const int c = mlat_feature_channel[f];
    const mlat_square value = m->past[at][c];
    switch (mlat_feature_takes[f]) {
    case MLAT_TAKES_SIZE:
        return value < 0 ? -value : value;
    case MLAT_TAKES_CHANGE: /* the first step comes from nowhere */
        return back + 1 < m->count ? value - m->past[at > 0 ? at - 1 : MLAT_MEMORY - 1][c] : 0;
    case MLAT_TAKES_VALUE:
    default:
        return value;
    }
}

/* The sum of what is taken of the last n steps, less `middle`, or of its squares. */
static mlat_square sum_of(const mlat *m, int f, int n, mlat_square middle, int power)
{
    mlat_square sum = 0;
    int i, at = m->at;
    for (i = 0; i < n; i++) {
        const mlat_square value = taken(m, f, i, at) - middle;
        sum += power == 2 ? value * value : value;
        at = at > 0 ? at - 1 : MLAT_MEMORY - 1;
    }
    return sum;
}

/* What a feature makes of that. Sums are made anew: nothing is left behind by values long gone. */
static mlat_square over(const mlat *m, int f)
{
    const int n = m->count < MLAT_REACH ? m->count : MLAT_REACH;
    mlat_square middle;
    switch (mlat_feature_over[f]) {
    case MLAT_OVER_MEAN:
        return mean_of(sum_of(m, f, n, 0, 1), n);
    case MLAT_OVER_ROOT_MEAN_SQUARE:
        return root_of_mean(sum_of(m, f, n, 0, 2), n);
    case MLAT_OVER_DEVIATION:
        middle = down(mean_of(sum_of(m, f, n, 0, 1), n), 4);
        return root_of_mean(sum_of(m, f, n, middle, 2), n);
    case MLAT_OVER_NOW:
    default:
        return finer(taken(m, f, 0, m->at));
    }
}

static void lift(mlat *m, const mlat_real *scaled, mlat_real *features)
{
    int c, f;
    m->at = (m->at + 1) % MLAT_MEMORY;
    if (m->count <= MLAT_MEMORY) {
        m->count++;
    }
    for (c = 0; c < MLAT_CHANNELS; c++) {
        m->past[m->at][c] = scaled[c];
    }
    for (f = 0; f < MLAT_FEATURES; f++) {
        mlat_square value = over(m, f);
        if (mlat_feature_floor[f] > 0) {
            value = logarithm(value + mlat_feature_floor[f], 20);
        } else {
            value = finer(value);
        }
        features[f] = feature_of(value, f);
    }
}
