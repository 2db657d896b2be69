/* Instantiate resident_body.h for both real types. */
#define REAL_BODY "resident_body.h"
#include "real_types.h"
#define RESIDENT_TABLE {ASP_GLUE(ISA, f32, resident, rows), ASP_GLUE(ISA, f64, resident, rows)}
