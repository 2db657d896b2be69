/* Includes tall_body.h for float and double (not guarded). */
#define R float
#include "tall_body.h"
#undef R
#define R double
#include "tall_body.h"
#undef R
