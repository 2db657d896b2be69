/* Instantiate irregular_rows_body.h for both index types. */
#include VEC_HEADER
#define INDEX_BODY "irregular_rows_body.h"
#include "index_types.h"
