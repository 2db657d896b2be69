/* Include taylor_body.h for each dtype. Has no include guard. */
#define PARTS 1
#define R float
#include "taylor_body.h"
#undef R
#define R double
#include "taylor_body.h"
#undef R
#undef PARTS
#define PARTS 2
#define R float
#include "taylor_body.h"
#undef R
#define R double
#include "taylor_body.h"
#undef R
#undef PARTS
