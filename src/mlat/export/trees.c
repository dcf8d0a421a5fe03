
#if MLAT_FORESTS > 0
/* Distances of a forest: of the points of windows, which are the sums of what the leaves that they
 * fall into say of each state. */

typedef struct {
    int n_trees, n_values;          /* of a point */
    int first_point;                /* in what is taught */
    int grain;                      /* of a stored point, in the unit of leaves */
    const mlat_link *sizes;         /* splits of each tree */
    const mlat_split *splits;       /* the value of a window that each is by */
    const mlat_threshold *thresholds;
    const mlat_link *links;         /* two of each: to a split of the tree, or -1 - a row of leaves */
    const mlat_leaf *leaves;
    const mlat_stored *points;      /* of the references */
} forest;

static const forest forests[MLAT_FORESTS] = {
/*FORESTS*/
};

static void point_of(mlat *m, const expert *e, mlat_real *point)
{
    const forest *f = &forests[e->forest];
    const mlat_split *splits = f->splits;
    const mlat_threshold *thresholds = f->thresholds;
    const mlat_link *links = f->links;
    int t, s;
    gather(m, e, m->x);
    for (s = 0; s < f->n_values; s++) {
        point[s] = 0;
    }
    for (t = 0; t < f->n_trees; t++) {
        const mlat_leaf *leaf;
        mlat_link at = 0;
        do {
            const int is_low = m->x[splits[at]] <= threshold_of(thresholds[at], &e->by);
            const mlat_link *sides = links + at + at;
            at = sides[is_low ? 0 : 1];
        } while (at >= 0);
        leaf = f->leaves + (size_t)(-1 - at) * (size_t)f->n_values;
        for (s = 0; s < f->n_values; s++) {
            point[s] += (mlat_real)leaf[s];
        }
        splits += f->sizes[t];
        thresholds += f->sizes[t];
        links += f->sizes[t];
        links += f->sizes[t];
    }
}

#define SQUARE_APART(name, number)                                                                 \
    static mlat_square name(const mlat_real *point, const number *other, int n, int grain)         \
    {                                                                                              \
        mlat_apart sum = 0;                                                                        \
        int s;                                                                                     \
        for (s = 0; s < n; s++) {                                                                  \
            const mlat_apart apart =                                                               \
                (mlat_apart)point[s] - (mlat_apart)other[s] * (mlat_apart)grain;                   \
            sum += apart * apart;                                                                  \
        }                                                                                          \
        return sum;                                                                                \
    }

SQUARE_APART(apart_from_stored, mlat_stored)
#if MLAT_SPARE > 0
SQUARE_APART(apart_from_taught, mlat_real)
#endif

static void search_points(mlat *m, const expert *e)
{
    const forest *f = &forests[e->forest];
    const mlat_stored *stored = f->points;
    int r, j;
    point_of(m, e, m->u);
    nothing_near(m);
#if MLAT_SPARE > 0
    for (r = 0; r < m->n_taught; r++) {
        const mlat_real *taught = m->taught_points[r] + f->first_point;
        const mlat_square square = apart_from_taught(m->u, taught, f->n_values, 1);
        keep(m, m->taught_state[r], square_of(square, &e->by));
    }
#endif
    for (r = 0; r < MLAT_RUNS; r++) {
        for (j = 0; j < mlat_run_size[r]; j++, stored += f->n_values) {
            const mlat_square square = apart_from_stored(m->u, stored, f->n_values, f->grain);
            keep(m, mlat_run_state[r], square_of(square, &e->by));
        }
    }
}
#endif
