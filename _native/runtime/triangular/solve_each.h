/* Includes solve_indices.h, and with it solve_body.h, for both types of reals and of indices (not guarded). */
#define REAL_BODY "solve_indices.h"
#include "real_types.h"
