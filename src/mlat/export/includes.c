/* How the state of a sensor stream is found, written by `mlat export`; see mlat.h. */

#include "mlat.h"

/*MATHEMATICS*/
#include <string.h>

#include "mlat_tables.h"

