/* What others call. */

void mlat_init(mlat *m)
{
    memset(m, 0, sizeof *m);
#if MLAT_NEW_STATES > 0
    m->n_states = MLAT_STATES - MLAT_NEW_STATES;
#endif
    mlat_reset(m);
    m->why = MLAT_FILLING;
}

static void begin_again(mlat *m, int why)
{
    m->at = 0;
    m->count = 0;
    m->newest = 0;
    m->n_steps = 0;
    m->why = why;
#if MLAT_FILTERED
    begin_belief(m);
#endif
}

void mlat_reset(mlat *m)
{
    int i;
    begin_again(m, MLAT_GAP);
    for (i = 0; i < MLAT_CHANNELS; i++) {
        m->n_held[i] = MLAT_HOLD;
    }
}

static int nothing(int why, mlat_out *out)
{
    int s;
    out->state = MLAT_UNKNOWN;
    out->why = why;
    out->proba = 0;
    out->distance = 0;
    for (s = 0; s < MLAT_STATES; s++) {
        out->distances[s] = 0;
        out->probabilities[s] = 0;
    }
    return MLAT_UNKNOWN;
}

#if MLAT_DEAD_CHANNELS
/* Whether a channel has been constant for too long. A missing value does not end that. */
static int is_dead(mlat *m, int c, mlat_real value)
{
    if (m->still_for[c] > 0 && value == m->still[c]) {
        if (m->still_for[c] < mlat_dead_after[c]) {
            m->still_for[c]++;
        }
    } else {
        m->still[c] = value;
        m->still_for[c] = 1;
    }
    return m->still_for[c] >= mlat_dead_after[c];
}
#endif

int mlat_push(mlat *m, const mlat_real values[MLAT_CHANNELS], mlat_out *out)
{
    mlat_real scaled[MLAT_CHANNELS];
    int c, is_far, usable = 1;
#if MLAT_DEAD_CHANNELS
    int dead = -1;
#endif
    for (c = 0; c < MLAT_CHANNELS; c++) {
        mlat_real value = 0;
        int there = scale(values[c], c, &value);
#if MLAT_DEAD_CHANNELS
        /* A value that is held is a constant one. */
        if (there || (m->n_held[c] < MLAT_HOLD && m->still_for[c] > 0)) {
            if (is_dead(m, c, there ? values[c] : m->still[c]) && dead < 0) {
                dead = c;
            }
        }
#endif
        if (there) {
            m->last[c] = value;
            m->n_held[c] = 0;
        } else if (m->n_held[c] < MLAT_HOLD) {
            m->n_held[c]++;
            value = m->last[c];
            there = 1;
        }
        scaled[c] = value;
        usable = usable && there;
    }
    if (!usable) {
        begin_again(m, MLAT_MISSING);
        return nothing(MLAT_MISSING, out);
    }
#if MLAT_DEAD_CHANNELS
    out->channel = dead;
    if (dead >= 0) {
        begin_again(m, MLAT_FILLING);
        return nothing(MLAT_DEAD, out);
    }
#endif
    m->newest = (m->newest + 1) % MLAT_KEPT;
    lift(m, scaled, m->window[m->newest]);
#if MLAT_PARTS > 0
    add_parts(m);
#endif
    if (m->n_steps < MLAT_KEPT) {
        m->n_steps++;
    }
    if (m->n_steps < MLAT_WIDTH) {
        return nothing(m->why, out);
    }
    is_far = decide(m, out);
    out->why = MLAT_KNOWN;
#if MLAT_FILTERED
    filter(m, out);
#endif
    out->proba = out->probabilities[out->state];
    if (is_far) {
        out->state = MLAT_UNKNOWN;
        out->why = MLAT_FAR;
    }
    return out->state;
}

int mlat_teach(mlat *m, int state)
{
#if MLAT_SPARE > 0
    int e, t, f, r = m->next_taught;
    if (state < 0 || state > N_STATES(m) || state >= MLAT_STATES || m->n_steps < MLAT_WIDTH) {
        return 0;
    }
#if MLAT_NEW_STATES > 0
    if (state == m->n_states) {
#if MLAT_FILTERED
        m->belief[state] = 0; /* it has no probability yet */
#endif
        m->n_states++;
    }
#endif
    for (t = 0; t < MLAT_WIDTH; t++) {
        for (f = 0; f < MLAT_FEATURES; f++) {
            m->taught[r][t][f] = step_before(m, MLAT_WIDTH - 1 - t)[f];
        }
    }
    for (e = 0; e < MLAT_EXPERTS; e++) {
#if MLAT_FORESTS > 0
        if (experts[e].forest >= 0) {
            point_of(m, &experts[e], m->taught_points[r] + forests[experts[e].forest].first_point);
            continue;
        }
#endif
        m->taught_square[e][r] = prepare(m, &experts[e], m->x, m->u);
    }
    m->taught_state[r] = state;
    m->next_taught = (r + 1) % MLAT_SPARE;
    if (m->n_taught < MLAT_SPARE) {
        m->n_taught++;
    }
    return 1;
#else
    (void)m;
    (void)state;
    return 0;
#endif
}
