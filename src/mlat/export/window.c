/* Beside rows of 8 bits a window is whole numbers of 16, in a unit that fits it, so that sums of
 * products have 32 bits. */
#if MLAT_NARROW
typedef uint32_t row_sum; /* of numbers with a sign: it may overflow on the way */
#define above_of(factor) ((uint32_t)((factor) * MLAT_ABOVE))
#else
typedef mlat_square row_sum;
#define above_of(factor) 0
#define narrow_unit(from, n, least) 0
#define narrowed(value, unit) (value)
#define widened(sum, unit) (sum)
#define fit_squares(q, by)
#endif

/* A row of the table of steps, for each reference further on. */
typedef struct {
    const mlat_step *first;
    int n, next;
} table_row;

/* A window that is compared. */
typedef struct {
    const mlat_factor *u;
    table_row rows[MLAT_ROWS];
    int n_rows;
    mlat_unit unit;
    int up, down;  /* of squares */
    row_sum above; /* what is added to products by what MLAT_ABOVE adds to steps */
} question;
