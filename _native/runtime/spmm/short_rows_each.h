/* Instantiate short_rows_body.h for both index types. */
#include VEC_HEADER
#define INDEX_BODY "short_rows_body.h"
#include "index_types.h"
