
#if MLAT_FORESTS > 0
/* Distances of a forest: of the points of windows, which are the sums of what the leaves that they
 * fall into say of each state. */

typedef struct {
    int n_trees, n_values;          /* of a point */
    int first_point;                /* in what is taught */
    int grain;                      /* of a stored point, in the unit of leaves */
    int n_leaves, n_runs;
    const mlat_link *sizes;         /* splits of each tree */
    const mlat_split *splits;       /* the value of a window that each is by */
    const mlat_threshold *thresholds;
    const mlat_link *links;         /* two of each: a row of leaves, or n_leaves + a split of the tree */
    const mlat_leaf *leaves;
    const mlat_stored *points;      /* of the references; equal ones of a state are one */
    const int *runs;                /* pairs: how many points of a state follow each other, and it */
} forest;

static const forest forests[MLAT_FORESTS] = {
/*FORESTS*/
};

static void point_of(mlat *m, const expert *e, mlat_point *point)
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
        int at = 0;
        do {
            const int is_high = !(m->x[splits[at]] <= threshold_of(thresholds[at], &e->by));
            at = links[2 * at + is_high] - f->n_leaves;
        } while (at >= 0);
        leaf = f->leaves + (size_t)(at + f->n_leaves) * (size_t)f->n_values;
        for (s = 0; s < f->n_values; s++) {
            point[s] += (mlat_point)leaf[s];
        }
        splits += f->sizes[t];
        thresholds += f->sizes[t];
        links += 2 * f->sizes[t];
    }
}

#define SQUARE_APART(name, number)                                                                 \
    static mlat_apart name(const mlat_point *point, const number *other, int n, int grain)          \
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
SQUARE_APART(apart_from_taught, mlat_point)
#endif

#if MLAT_NEIGHBORS == 1
/* The nearest of the points of a state, which come in the order of their part of that state: from
 * there on as far as that part alone is not too far away. */
static mlat_apart nearest_apart(const forest *f, const mlat_stored *points, int n,
                                const mlat_point *point, int state)
{
    const int d = f->n_values, first = state < d ? state : 0;
    mlat_apart least = MLAT_MOST_APART;
    int low = 0, high = n, way;
    while (low < high) {
        const int middle = (low + high) / 2;
        if ((mlat_point)(points[middle * d + first] * (mlat_point)f->grain) < point[first]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (way = 1; way >= -1; way -= 2) {
        int j = way > 0 ? low : low - 1;
        for (; j >= 0 && j < n; j += way) {
            const mlat_stored *other = points + j * d;
            mlat_apart apart = (mlat_apart)point[first] - (mlat_apart)other[first] * (mlat_apart)f->grain;
            if (apart * apart >= least) {
                break;
            }
            apart = apart_from_stored(point, other, d, f->grain);
            least = apart < least ? apart : least;
        }
    }
    return least;
}
#endif

static void search_points(mlat *m, const expert *e)
{
    const forest *f = &forests[e->forest];
    const mlat_stored *stored = f->points;
    mlat_point point[MLAT_POINTS];
    int r, n;
#if MLAT_NEIGHBORS > 1
    int j;
#endif
    point_of(m, e, point);
    nothing_near(m);
#if MLAT_SPARE > 0
    for (r = 0; r < m->n_taught; r++) {
        const mlat_point *taught = m->taught_points[r] + f->first_point;
        keep(m, m->taught_state[r], (mlat_square)apart_from_taught(point, taught, f->n_values, 1));
    }
#endif
    for (r = 0; r < f->n_runs; r++, stored += n * f->n_values) {
        const int state = f->runs[2 * r + 1];
        n = f->runs[2 * r];
#if MLAT_NEIGHBORS > 1
        for (j = 0; j < n; j++) {
            const mlat_stored *other = stored + j * f->n_values;
            keep(m, state, (mlat_square)apart_from_stored(point, other, f->n_values, f->grain));
        }
#else
        keep(m, state, (mlat_square)nearest_apart(f, stored, n, point, state));
#endif
    }
}
#endif
