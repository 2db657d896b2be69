/* Includes incomplete_body.h for both types of indices (not guarded). */
#define INDEX_BODY "incomplete_body.h"
#include "index_types.h"
