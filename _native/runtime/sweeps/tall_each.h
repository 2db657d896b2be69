/* Includes tall_body.h for float and double (not guarded). */
#define REAL_BODY "tall_body.h"
#include "real_types.h"
