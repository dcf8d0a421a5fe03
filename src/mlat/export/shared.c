/* What is the same in every arithmetic. */

#if MLAT_NEW_STATES > 0
#define N_STATES(m) ((m)->n_states)
#else
#define N_STATES(m) MLAT_STATES
#endif

static void keep(mlat *m, int state, mlat_square square)
{
#if MLAT_NEIGHBORS > 1
    int i = MLAT_NEIGHBORS;
    while (i > 0 && square < m->near_square[i - 1]) {
        i--;
    }
    if (i < MLAT_NEIGHBORS) {
        int j;
        for (j = MLAT_NEIGHBORS - 1; j > i; j--) {
            m->near_square[j] = m->near_square[j - 1];
            m->near_state[j] = m->near_state[j - 1];
        }
        m->near_square[i] = square;
        m->near_state[i] = state;
    }
#endif
    if (square < m->square[state]) {
        m->square[state] = square;
    }
}

static void nothing_near(mlat *m)
{
    int s;
    for (s = 0; s < MLAT_STATES; s++) {
        m->square[s] = MLAT_HUGE;
    }
#if MLAT_NEIGHBORS > 1
    for (s = 0; s < MLAT_NEIGHBORS; s++) {
        m->near_square[s] = MLAT_HUGE;
        m->near_state[s] = 0;
    }
#endif
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
#endif
