/* What rows of the table are multiplied with. Beside rows of 8 bits these are whole numbers of 16, in
 * a unit that fits the window, so that sums have 32 bits. */
#if MLAT_NARROW
typedef mlat_factor factor;
typedef uint32_t row_sum; /* of numbers with a sign: it may overflow on the way */
#else
typedef mlat_real factor;
typedef mlat_square row_sum;
#define widened(sum, unit) (sum)
#endif

/* A row of the table of steps, for each reference further on. */
typedef struct {
    const mlat_step *first;
    int n, next;
} table_row;

/* A window that is compared. */
typedef struct {
    const factor *u;
    table_row rows[MLAT_ROWS];
    int n_rows;
    mlat_unit unit;
    int up, down; /* of squares */
#if MLAT_NARROW
    uint32_t above; /* what MLAT_ABOVE adds to products */
#endif
} question;
