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

/* The logarithm to base 2, Q24, of x > 0 in Q`bits`: one more digit by each squaring, in 32 bits, as a
 * small processor multiplies. */
static int64_t logarithm(int64_t x, int bits)
{
    int32_t fraction = 0, digit;
    uint32_t y;
    int whole = 30;
    while (x >= (int64_t)1 << 31) {
        x >>= 1;
        whole++;
    }
    y = (uint32_t)x;
    while (y < (uint32_t)1 << 30) {
        y <<= 1;
        whole--;
    }
    for (digit = (int32_t)(ONE / 2); digit > 0; digit /= 2) {
        const uint32_t high = y >> 15, low = y & 32767;
        y = high * high + ((high * low) >> 14);
        if (y >= (uint32_t)1 << 31) {
            y >>= 1;
            fraction += digit;
        }
    }
    return (whole - bits) * ONE + fraction;
}

#if MLAT_NEIGHBORS == 1 || MLAT_FILTERED
/* 2^x for x <= 0, from Q24 to Q30. */
static int64_t power(int64_t x)
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

mlat_real mlat_reading(int channel, int32_t reading)
{
    const int bits = mlat_input_bits[channel];
    int64_t value = reading;
    if (bits < 0) {
        return (mlat_real)down(value, -bits);
    }
    value = bits < 31 ? value * ((int64_t)1 << bits) : value ? INT64_MAX : 0;
    return value > 2147483647 || value < -2147483647 ? MLAT_NO_VALUE : (mlat_real)value;
}

/* One digit of four bits more. */
#define finer(x) ((x) * 16)

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

/* From Q16 to Q20. */
static int64_t mean_of(int64_t sum, int n)
{
    return finer(sum) / n;
}

/* The root of a mean of squares, from Q32 to Q20. */
static int64_t root_of_mean(int64_t squares, int n)
{
    if (squares < (int64_t)1 << 54) {
        return root((uint64_t)(squares * 256 / n));
    }
    return finer((int64_t)root((uint64_t)(squares / n)));
}

/* From Q24 into the unit in which a feature is stored. */
static mlat_real feature_of(int64_t value, int f)
{
    value = down((value - mlat_feature_mean[f]) * mlat_feature_factor[f], mlat_feature_shift[f]);
    value = value > MLAT_LARGEST_X ? MLAT_LARGEST_X : value;
    return (mlat_real)(value < -MLAT_LARGEST_X ? -MLAT_LARGEST_X : value);
}

/* What an expert's numbers mean. */
typedef struct {
    int32_t weight; /* Q24 */
    int32_t factor; /* of a distance, to make it one in typical distances */
    int square_exponent; /* of the unit of a stored square */
    int metric_shift, factor_shift;
} numbers;

#define of_metric(sum, by) ((mlat_real)down(sum, (by)->metric_shift))
#define threshold_of(stored, by) ((stored) * ((int32_t)1 << (by)->metric_shift))
#define square_of(stored, by) ((int64_t)(stored) * ((int64_t)1 << (by)->square_exponent))

/* Sums of whole numbers are exact: they never have to begin anew. */
#define ANCHOR 2147483647
#define is_wild(own, by) 0

/* Of numbers of 16 bits. */
typedef int mlat_unit;
/*WINDOW*/

#if MLAT_NARROW
/* The shift by which numbers are at most MLAT_NARROW. */
static mlat_unit narrow_unit(const mlat_real *from, int n, int least)
{
    mlat_square most = 0;
    int i, shift = least;
    for (i = 0; i < n; i++) {
        const mlat_square size = from[i] < 0 ? -(mlat_square)from[i] : from[i];
        most = size > most ? size : most;
    }
    while (most > ((mlat_square)MLAT_NARROW << shift)) {
        shift++;
    }
    return shift;
}
#define narrowed(value, unit) ((mlat_factor)down(value, unit))
#define widened(sum, unit) ((int64_t)((uint64_t)(int64_t)(int32_t)(sum) << (unit)))
/* Half of a stored square in the unit of a window, which is such that it fits. */
#define least_unit(by) ((by)->square_exponent > 15 ? (by)->square_exponent - 15 : 0)
#define short_square(stored, q) ((int32_t)(((uint32_t)(stored) << (q)->up) >> (q)->down))

static void fit_squares(question *q, const numbers *by)
{
    const int up = by->square_exponent - q->unit - 1;
    q->up = up > 0 ? up : 0;
    q->down = up > 0 ? 0 : -up;
}
#endif

/* A distance in typical ones, Q24, from its square. */
static int64_t distance_of(int64_t square, const numbers *by)
{
    uint64_t x;
    int shift = by->factor_shift;
    if (square <= 0) {
        return 0;
    }
    x = (uint64_t)square;
    while (x < (uint64_t)1 << 60) {
        x <<= 2;
        shift++;
    }
    x = (uint64_t)root(x) * (uint64_t)by->factor;
    if (shift < 0) {
        return MLAT_FURTHEST;
    }
    x = (uint64_t)down((int64_t)x, shift);
    return x < (uint64_t)MLAT_FURTHEST ? (int64_t)x : MLAT_FURTHEST;
}

/* What is told of numbers: in 65536ths. */
#define TOLD_MOST 2147483647
#if MLAT_EXPERTS > 1
static mlat_real told_product(int64_t nearness)
{
    return nearness < 15 * ONE ? within(power(nearness - 15 * ONE) * 2) : TOLD_MOST;
}
#else
static mlat_real told_distance(int64_t distance, const numbers *by)
{
    (void)by;
    return within(distance >> 8);
}
#endif
#define told_share(part, total) ((mlat_real)(((part) * 65536 + (total) / 2) / (total)))
#if MLAT_FILTERED
#define belief_of(part, total) ((mlat_real)(((part) * ((int64_t)1 << 30) + (total) / 2) / (total)))
#define told_belief(belief) ((belief) >> 14)
#endif
