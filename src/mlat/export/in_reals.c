/* Everything in floating point. Where whole numbers would be shifted, nothing is to be done. */

#define down(x, bits) (x)
#define finer(x) (x)
#define logarithm(x, bits) MLAT_LOG(x)
#define power(x) MLAT_EXP(x)

/* A value in deviations from the mean; returns 0 if there is none. */
static int scale(mlat_real value, int c, mlat_real *scaled)
{
    if (!(value - value == 0)) { /* NaN or infinite */
        return 0;
    }
    *scaled = (value - mlat_channel_mean[c]) / mlat_channel_scale[c];
    return MLAT_ABS(*scaled) <= MLAT_EXTREME;
}

#define mean_of(sum, n) ((sum) / (mlat_real)(n))
#define root_of_mean(squares, n) MLAT_SQRT((squares) / (mlat_real)(n))

/* In the unit in which a feature is stored. */
#define feature_of(value, f) (((value) - mlat_feature_mean[f]) / mlat_feature_scale[f])

/* What an expert's numbers mean. */
typedef struct {
    mlat_real weight, typical, metric_unit, square_unit;
    mlat_real unit;    /* of what is told of a distance */
    mlat_real largest; /* y'My of a reference */
} numbers;

#define of_metric(sum, by) ((sum) * (by)->metric_unit)
#define threshold_of(stored, by) ((mlat_real)(stored) * (by)->metric_unit)
#define square_of(stored, by) ((stored) * (by)->square_unit)

/* After so many additions a sum begins anew, before rounding adds up. One of a window far larger
 * than references, such as a value that is wildly wrong, is not gone on with: it has lost digits. */
#define ANCHOR 32
#define is_wild(own, by) (!((own) <= 4 * (by)->largest))

/* Of numbers of 16 bits. */
typedef mlat_real mlat_unit;
/*WINDOW*/

#if MLAT_NARROW
/* The unit in which numbers are at most MLAT_NARROW. */
static mlat_unit narrow_unit(const mlat_real *from, int n, int least)
{
    mlat_real most = 0;
    int i;
    for (i = 0; i < n; i++) {
        most = MLAT_ABS(from[i]) > most ? MLAT_ABS(from[i]) : most;
    }
    (void)least;
    return most > MLAT_TINY ? most / (mlat_real)MLAT_NARROW : 1;
}

static mlat_factor narrowed(mlat_real value, mlat_unit unit)
{
    value /= unit;
    return (mlat_factor)(value < 0 ? value - (mlat_real)0.5 : value + (mlat_real)0.5);
}
#define widened(sum, unit) ((mlat_square)(int32_t)(sum) * (unit))
#define least_unit(by) 0
#define fit_squares(q, by) ((void)(by))
#endif

/* A distance in typical ones, from its square. */
static mlat_real distance_of(mlat_real square, const numbers *by)
{
    return square > 0 ? MLAT_SQRT(square) / by->typical : 0;
}

#define TOLD_MOST MLAT_HUGE
#define told_product(nearness) ((nearness) < MLAT_HUGE ? MLAT_EXP(nearness) : MLAT_HUGE)
#define told_distance(distance, by) ((distance) * (by)->typical * (by)->unit)
#define told_share(part, total) ((part) / (total))
#define belief_of(part, total) ((part) / (total))
#define told_belief(belief) (belief)
