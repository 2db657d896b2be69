/* Includes incomplete_body.h for both types of indices (not guarded). */
#define INDEX int32_t
#include "incomplete_body.h"
#undef INDEX
#define INDEX int64_t
#include "incomplete_body.h"
#undef INDEX
