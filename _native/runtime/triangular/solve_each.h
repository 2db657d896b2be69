/* Includes solve_body.h for both types of reals and of indices (not guarded). */
#define R float
#define INDEX int32_t
#include "solve_body.h"
#undef INDEX
#define INDEX int64_t
#include "solve_body.h"
#undef INDEX
#undef R
#define R double
#define INDEX int32_t
#include "solve_body.h"
#undef INDEX
#define INDEX int64_t
#include "solve_body.h"
#undef INDEX
#undef R
