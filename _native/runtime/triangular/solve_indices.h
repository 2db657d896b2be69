/* Includes solve_body.h for both types of indices (not guarded). */
#define INDEX_BODY "solve_body.h"
#include "index_types.h"
