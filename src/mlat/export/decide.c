
/* From distances to a state and its probability. */

#if MLAT_NEW_STATES > 0
#define N_STATES(m) ((m)->n_states)
#else
#define N_STATES(m) MLAT_STATES
#endif

/* Returns whether the window is like no reference. */
static int decide(mlat *m, mlat_out *out)
{
    mlat_square nearness[MLAT_STATES]; /* logarithms of distances */
    mlat_square weights[MLAT_STATES];
    mlat_square least = MLAT_HUGE, nearest = MLAT_HUGE, total = 0;
    const int n_states = N_STATES(m);
    int e, s;
    for (s = 0; s < MLAT_STATES; s++) {
        nearness[s] = 0;
        out->distances[s] = TOLD_MOST;
        out->probabilities[s] = 0;
    }
    for (e = 0; e < MLAT_EXPERTS; e++) {
        const numbers *by = &experts[e].by;
#if MLAT_FORESTS > 0
        if (experts[e].forest >= 0) {
            search_points(m, &experts[e]);
        } else {
            search(m, &experts[e]);
        }
#else
        search(m, &experts[e]);
#endif
        for (s = 0; s < n_states; s++) {
            if (m->square[s] < MLAT_HUGE) {
                const mlat_square distance = distance_of(m->square[s], by);
                nearness[s] += down(logarithm(distance + MLAT_SOFT, 24) * by->weight, 24);
                nearest = distance < nearest ? distance : nearest;
#if MLAT_EXPERTS == 1
                out->distances[s] = told_distance(distance, by);
#endif
            } else {
                nearness[s] = MLAT_HUGE; /* no reference is left of a state that was taught */
            }
        }
    }
    out->state = 0;
    for (s = 0; s < n_states; s++) {
#if MLAT_EXPERTS > 1
        out->distances[s] = told_product(nearness[s]);
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
    for (s = 0; s < n_states; s++) {
        weights[s] = 0;
        nearness[s] = 0; /* from here on, the sum of distances of those that vote */
    }
    for (e = 0; e < MLAT_NEIGHBORS; e++) {
        weights[m->near_state[e]] += 1;
        nearness[m->near_state[e]] += distance_of(m->near_square[e], &experts[0].by);
    }
    total = (mlat_square)MLAT_NEIGHBORS;
    out->state = m->near_state[0];
    for (s = 0; s < n_states; s++) {
        const int best = out->state;
        if (weights[s] > weights[best] ||
            (!(weights[s] < weights[best]) &&
             (nearness[s] < nearness[best] || (!(nearness[best] < nearness[s]) && s < best)))) {
            out->state = s;
        }
#if MLAT_FILTERED
        m->evidence[s] = logarithm(weights[s] + 1, 0) - logarithm(total + (mlat_square)n_states, 0);
#endif
    }
#else
    for (s = 0; s < n_states; s++) {
        weights[s] = 0;
        if (nearness[s] < MLAT_HUGE) {
            weights[s] = power(-down((nearness[s] - least) * MLAT_BETA, 16));
        }
        total += weights[s];
    }
#if MLAT_FILTERED
    for (s = 0; s < n_states; s++) {
        m->evidence[s] = MLAT_NEVER;
        if (nearness[s] < MLAT_HUGE) {
            m->evidence[s] =
                -down((nearness[s] - least) * MLAT_BETA, 16) - logarithm(total, 30);
        }
    }
#endif
#endif
    for (s = 0; s < n_states; s++) {
        out->probabilities[s] = told_share(weights[s], total);
    }
    return MLAT_HAS_THRESHOLD && nearest > MLAT_THRESHOLD;
}

#if MLAT_FILTERED
/* Where the transitions between so many states begin. */
static size_t transition_of(int n_states)
{
    size_t at = 0;
    int n;
    for (n = MLAT_STATES - MLAT_NEW_STATES; n < n_states; n++) {
        at += (size_t)(n * n);
    }
    return at;
}

static void begin_belief(mlat *m)
{
    size_t at = 0;
    int n, s;
    for (n = MLAT_STATES - MLAT_NEW_STATES; n < N_STATES(m); n++) {
        at += (size_t)n;
    }
    for (s = 0; s < N_STATES(m); s++) {
        m->belief[s] = mlat_stationary[at + (size_t)s];
    }
    m->fresh = 1;
}

/* In logarithms, so that nothing is too small. */
static void filter(mlat *m, mlat_out *out)
{
    mlat_square after[MLAT_STATES], logs[MLAT_STATES], total = 0, most = MLAT_NEVER;
    const int n_states = N_STATES(m);
    const mlat_real *transition = mlat_transition + transition_of(n_states);
    int a, b;
    for (b = 0; b < n_states; b++) {
        after[b] = 0;
        for (a = 0; a < n_states; a++) {
            after[b] += (mlat_square)m->belief[a] * transition[a * n_states + b];
        }
        after[b] = down(after[b], 30);
        logs[b] = MLAT_NEVER;
        if (after[b] > 0 && m->evidence[b] > MLAT_NEVER) {
            logs[b] = logarithm(after[b], 30) +
                      (m->fresh ? m->evidence[b] : down(m->evidence[b] * MLAT_TEMPERING, 24));
        }
        most = logs[b] > most ? logs[b] : most;
    }
    for (b = 0; b < n_states; b++) {
        if (most > MLAT_NEVER) {
            after[b] = logs[b] > MLAT_NEVER ? power(logs[b] - most) : 0;
        }
        total += after[b];
    }
    out->state = 0;
    for (b = 0; b < n_states; b++) {
        m->belief[b] = belief_of(after[b], total);
        out->probabilities[b] = told_belief(m->belief[b]);
        if (after[b] > after[out->state]) {
            out->state = b;
        }
    }
    m->fresh = 0;
}
#endif
