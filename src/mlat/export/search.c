
/* Distances of an expert: (x - y)'M(x - y) = x'Mx - 2 (Mx)'y + y'My. */

typedef struct {
    int width, n_columns, n_lags, is_full;
    int n_blocks;
    const unsigned short *columns;  /* which features it sees */
    const unsigned short *blocks;   /* where they are stored, as pairs: how many are before, and in it */
    /* By lag, or one matrix. What is symmetric, lag 0 and the one matrix, has rows up to the diagonal. */
    const mlat_metric *metric;
    const mlat_stored_square *squares; /* y'My of each reference */
    int first_sum;                  /* of its running sums, -1 where it has none */
    int first_part;                 /* of the parts of Mx that are carried, -1 where it has no lags */
#if MLAT_FORESTS > 0
    int forest;                     /* -1 where its metric is a matrix */
#endif
    numbers by;
} expert;

static const expert experts[MLAT_EXPERTS] = {
/*EXPERTS*/
};

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

/* The step so long before the newest. */
static const mlat_real *step_before(const mlat *m, int back)
{
    return m->window[(m->newest + MLAT_KEPT - back) % MLAT_KEPT];
}

/* A row or, by `next`, a column of a matrix times a column. Four sums, as one would wait for each of
 * its additions. */
static mlat_square product(const mlat_metric *row, int next, const mlat_real *column, int n)
{
    mlat_square a = 0, b = 0, c = 0, d = 0;
    int j;
    for (j = 0; j + 4 <= n; j += 4) {
        a += (mlat_square)row[j * next] * column[j];
        b += (mlat_square)row[(j + 1) * next] * column[j + 1];
        c += (mlat_square)row[(j + 2) * next] * column[j + 2];
        d += (mlat_square)row[(j + 3) * next] * column[j + 3];
    }
    for (; j < n; j++) {
        a += (mlat_square)row[j * next] * column[j];
    }
    return (a + b) + (c + d);
}

/* Row i of a symmetric matrix times a column. */
static mlat_square symmetric_product(const mlat_metric *matrix, const mlat_real *column, int n,
                                     int i)
{
    const mlat_metric *row = matrix + (size_t)i * (size_t)(i + 1) / 2;
    mlat_square a = product(row, 1, column, i + 1), b = 0;
    int j;
    row += i;
    for (j = i + 1; j + 1 < n; j += 2) { /* down from the diagonal */
        a += (mlat_square)row[j] * column[j];
        row += 2 * j + 1;
        b += (mlat_square)row[0] * column[j + 1];
    }
    if (j < n) {
        a += (mlat_square)row[j] * column[j];
    }
    return a + b;
}

/* The values of the newest window that an expert sees, oldest step first. */
static void gather(const mlat *m, const expert *e, mlat_real *x)
{
    const int w = e->width, n = e->n_columns;
    int t, c;
    for (t = 0; t < w; t++) {
        const mlat_real *step = step_before(m, w - 1 - t);
        for (c = 0; c < n; c++) {
            x[t * n + c] = step[e->columns[c]];
        }
    }
}

#if MLAT_PARTS > 0
/* Of a metric by lags, the part of Mx of a moment that is of it and of those before, and the part of
 * those after it. The first is made when the moment comes, once for each number of moments before it
 * that are still in the window; the second grows with each step. Nothing is taken away again, so no
 * rounding adds up. */
static void add_parts(mlat *m)
{
    int i, lag, c;
    for (i = 0; i < MLAT_EXPERTS; i++) {
        const expert *e = &experts[i];
        const int w = e->width, n = e->n_columns;
        mlat_square *before, *after;
        if (e->first_part < 0) {
            continue;
        }
        before = m->parts + e->first_part;
        after = before + MLAT_KEPT * w * n;
        gather(m, e, m->x);
        for (lag = 0; lag < w; lag++) {
            const mlat_metric *block = e->metric + n * (n + 1) / 2 + (size_t)(lag - 1) * (size_t)(n * n);
            const int then = (m->newest + MLAT_KEPT - lag) % MLAT_KEPT;
            for (c = 0; c < n; c++) {
                mlat_square own = 0, late = 0;
                if (lag == 0) {
                    own = symmetric_product(e->metric, m->x + (w - 1) * n, n, c);
                } else if (lag < e->n_lags) {
                    own = product(block + c * n, 1, m->x + (w - 1 - lag) * n, n);
                    late = product(block + c, n, m->x + (w - 1) * n, n);
                }
                before[(m->newest * w + lag) * n + c] =
                    own + (lag ? before[(m->newest * w + lag - 1) * n + c] : 0);
                after[then * n + c] = lag ? after[then * n + c] + late : 0;
            }
        }
    }
}
#endif

/* x, and u = Mx; returns x'u */
static mlat_square prepare(const mlat *m, const expert *e, mlat_real *x, mlat_real *u)
{
    const int w = e->width, n = e->n_columns;
    mlat_square sum = 0;
    int t, c;
    gather(m, e, x);
    for (t = 0; t < w; t++) {
#if MLAT_PARTS > 0
        const int then = (m->newest + MLAT_KEPT - (w - 1 - t)) % MLAT_KEPT;
#endif
        for (c = 0; c < n; c++) {
            mlat_square row;
            if (e->is_full) {
                row = symmetric_product(e->metric, x, w * n, t * n + c);
#if MLAT_PARTS > 0
            } else if (e->first_part >= 0) {
                const mlat_square *before = m->parts + e->first_part;
                row = before[(then * w + t) * n + c] + before[(MLAT_KEPT * w + then) * n + c];
#endif
            } else {
                row = symmetric_product(e->metric, x + t * n, n, c);
            }
            u[t * n + c] = of_metric(row, &e->by);
        }
    }
    for (c = 0; c < w * n; c++) {
        sum += (mlat_square)x[c] * u[c];
    }
    return down(sum, MLAT_X_BITS);
}

#define AT_ONCE 32 /* references */
#define swap_middles(u)
#define TIMES(i, y) ((row_sum)u[i] * y[i])
#define ADD_FOUR                                                                                   \
    a += (TIMES(0, y) + TIMES(1, y)) + (TIMES(2, y) + TIMES(3, y));                                \
    b += (TIMES(0, z) + TIMES(1, z)) + (TIMES(2, z) + TIMES(3, z));
#if MLAT_NARROW && defined(__GNUC__) && defined(__ARM_FEATURE_SIMD32) && !defined(__ARM_BIG_ENDIAN)
/* Two products in one instruction: of every four numbers those of the first and the third, and those
 * of the second and the fourth, for which the middle ones of u are swapped. */
#include <arm_acle.h>

#undef swap_middles
static void swap_middles(short *u)
{
    const short second = u[1];
    u[1] = u[2];
    u[2] = second;
}

#define ADD_TO(sum, row)                                                                           \
    memcpy(&four, row, 4);                                                                         \
    __asm__("uxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(four));                                      \
    sum = (uint32_t)__smlad((int16x2_t)__uxtb16(four), even_u, (int32_t)sum);                      \
    sum = (uint32_t)__smlad((int16x2_t)odd, odd_u, (int32_t)sum);
#undef ADD_FOUR
#define ADD_FOUR                                                                                   \
    int16x2_t even_u, odd_u;                                                                       \
    uint32_t four, odd;                                                                            \
    memcpy(&even_u, u, 4);                                                                         \
    memcpy(&odd_u, u + 2, 4);                                                                      \
    ADD_TO(a, y)                                                                                   \
    ADD_TO(b, z)
#elif MLAT_NARROW && defined(__GNUC__) && defined(__thumb__)
/* Each is added at once: for sums of products there are too few registers. */
#define ADD_ONE(i)                                                                                 \
    a += TIMES(i, y);                                                                              \
    b += TIMES(i, z);                                                                              \
    __asm__("" : "+l"(a), "+l"(b));
#undef ADD_FOUR
#define ADD_FOUR ADD_ONE(0) ADD_ONE(1) ADD_ONE(2) ADD_ONE(3)
#endif

/* To the sums of pairs of references that follow each other the products of u and a row of each: two
 * at once, so that u is read once. Alone it has enough registers. */
#ifdef __GNUC__
__attribute__((noinline))
#endif
static void add_products(const mlat_factor *of_row, const mlat_factor *end, const mlat_step *first, int next,
                         int n_pairs, row_sum *sums)
{
    for (; n_pairs > 0; n_pairs--, first += 2 * next, sums += 2) {
        const mlat_factor *u = of_row;
        const mlat_step *y = first, *z = first + next;
        row_sum a = sums[0], b = sums[1];
        do {
            ADD_FOUR
            u += 4;
            y += 4;
            z += 4;
        } while (u != end);
        sums[0] = a;
        sums[1] = b;
    }
}

/* A step of the references in a block. */
static const mlat_step *step_of(const unsigned short *block, int at)
{
    return mlat_steps + (size_t)block[0] * (size_t)MLAT_STEPS + (size_t)at * (size_t)block[1];
}

/* The newest window, after `prepare`. */
static void ask(mlat *m, const expert *e, question *q)
{
    /* In a block steps follow each other: alone it is one long row. */
    const int at_once = e->n_blocks == 1 ? e->width : 1;
    const mlat_real *from = m->u;
    mlat_factor *u = m->factors;
    int t, k;
    memset(q, 0, sizeof *q);
    for (t = 0; t < e->width; t += at_once) {
        for (k = 0; k < e->n_blocks; k++) {
            const unsigned short *block = e->blocks + 2 * k;
            table_row *row = &q->rows[q->n_rows++];
            row->first = step_of(block, t);
            row->next = block[1];
            row->n = at_once * block[1];
        }
    }
    q->u = u;
    q->unit = narrow_unit(from, e->width * e->n_columns, least_unit(&e->by));
    fit_squares(q, &e->by);
    for (k = 0; k < q->n_rows; k++) {
        const int n = q->rows[k].n;
        for (t = 0; t < n; t += 4, u += 4) {
            int c;
            for (c = 0; c < 4; c++) { /* what is read beyond a row counts nothing */
                u[c] = t + c < n ? narrowed(*from++, q->unit) : 0;
                q->above += above_of(u[c]);
            }
            swap_middles(u);
        }
    }
}

/* The products of u and n references that follow each other, and of one more where n is odd. */
static void products_of(const question *q, int begin, int n, row_sum *sums)
{
    const mlat_factor *u = q->u, *next;
    const table_row *row = q->rows, *end = row + q->n_rows;
    int i;
    for (i = 0; i < n + n % 2; i++) {
        sums[i] = 0 - q->above;
    }
    for (; row < end; row++, u = next) {
        next = u + (row->n + 3) / 4 * 4;
        add_products(u, next, row->first + (size_t)begin * (size_t)row->next,
                     row->next * MLAT_EVERY, (n + 1) / 2, sums);
    }
}

/* What is added to x'Mx: y'My less twice the product. */
#if MLAT_NARROW && defined(short_square)
typedef int32_t rest;
#define MOST_REST INT32_MAX
#define rest_of(stored, e, q, product) (short_square(stored, q) - (int32_t)(product))
#define whole_rest(half, q) (widened(half, (q)->unit) * 2)
#else
typedef mlat_square rest;
#define MOST_REST MLAT_HUGE
#define rest_of(stored, e, q, product)                                                             \
    (square_of(stored, &(e)->by) - 2 * widened(product, (q)->unit))
#define whole_rest(all, q) (all)
#endif

#if MLAT_SUMS > 0
/* Of a metric without lags, all that the product of windows gains from one step to the next is that
 * of the steps that enter, less that of those that leave: sum[j] = sum[j - 1] + enters - leaves. */

static row_sum step_product(const expert *e, const mlat_factor *v, int at)
{
    row_sum sum = 0;
    int k, c;
    for (k = 0; k < e->n_blocks; k++) {
        const unsigned short *block = e->blocks + 2 * k;
        for (c = 0; c < block[1]; c++) {
            sum += (row_sum)*v++ * step_of(block, at)[c];
        }
    }
    return sum;
}

static void go_on(mlat *m, const expert *e, const question *q, mlat_square own)
{
    const int w = e->width, n = e->n_columns, was_wild = m->wild[e - experts];
    const mlat_real *step = step_before(m, w);
    const mlat_stored_square *square = e->squares;
    const mlat_real *enters = m->u + (w - 1) * n;
    mlat_square *sum = m->sums + e->first_sum;
    mlat_real *x = m->x, *leaves = m->x + n;
    int anew, r, c;
    m->wild[e - experts] = is_wild(own, &e->by);
    anew = was_wild || m->wild[e - experts] || m->n_steps <= MLAT_WIDTH;
    for (c = 0; c < n; c++) {
        x[c] = step[e->columns[c]];
    }
    for (c = 0; c < n; c++) {
        leaves[c] = of_metric(symmetric_product(e->metric, x, n, c), &e->by);
    }
    for (r = 0; r < MLAT_RUNS; r++) {
        const int first = mlat_run_start[r] + MLAT_WIDTH - w;
        mlat_square before = 0;
        int j;
        for (j = 0; j < mlat_run_size[r]; j++, sum++, square++) {
            const mlat_square was = *sum;
            if (anew || j % ANCHOR == 0) {
                row_sum two[2];
                products_of(q, first + j, 1, two);
                *sum = two[0];
            } else {
                *sum = before + step_product(e, enters, first + j + w - 1) -
                       step_product(e, leaves, first + j - 1);
            }
            before = was;
            keep(m, mlat_run_state[r], own - 2 * *sum + square_of(*square, &e->by));
        }
    }
}
#endif

static void search(mlat *m, const expert *e)
{
    const mlat_square own = prepare(m, e, m->x, m->u);
    const mlat_stored_square *square = e->squares;
    question q;
    int r;
    ask(m, e, &q);
    nothing_near(m);
#if MLAT_SPARE > 0
    for (r = 0; r < m->n_taught; r++) {
        mlat_square dot = 0;
        int t, c;
        for (t = 0; t < e->width; t++) {
            const mlat_real *step = m->taught[r][MLAT_WIDTH - e->width + t];
            for (c = 0; c < e->n_columns; c++) {
                dot += (mlat_square)m->u[t * e->n_columns + c] * step[e->columns[c]];
            }
        }
        keep(m, m->taught_state[r],
             own - 2 * down(dot, MLAT_X_BITS) + m->taught_square[e - experts][r]);
    }
#endif
#if MLAT_SUMS > 0
    if (e->first_sum >= 0) {
        go_on(m, e, &q, own);
        return;
    }
#endif
    for (r = 0; r < MLAT_RUNS; r++) {
        int begin = mlat_run_start[r] + MLAT_WIDTH - e->width, left = mlat_run_size[r];
        rest least = MOST_REST;
        while (left > 0) {
            const int n = left < AT_ONCE ? left : AT_ONCE;
            row_sum products[AT_ONCE];
            int i;
            products_of(&q, begin, n, products);
            for (i = 0; i < n; i++, square++) {
                const rest other = rest_of(*square, e, &q, products[i]);
#if MLAT_NEIGHBORS > 1
                keep(m, mlat_run_state[r], own + whole_rest(other, &q));
#else
                least = other < least ? other : least;
#endif
            }
            begin += n * MLAT_EVERY;
            left -= n;
        }
        if (least < MOST_REST) {
            keep(m, mlat_run_state[r], own + whole_rest(least, &q));
        }
    }
}
