/* Instantiate the kernels for the numbers of columns of one type whose rows have fewer than 32 bytes. */
#define COLUMNS 2
#include "narrow_body.h"
#ifdef HAS_GATHERS
#include "narrow_gathered_body.h"
#endif
#undef COLUMNS
#define COLUMNS 3
#include "narrow_body.h"
#if defined(HAS_GATHERS) && RBYTES == 4
#include "narrow_gathered_body.h"
#endif
#undef COLUMNS
#if RBYTES == 4
#define COLUMNS 4
#include "narrow_body.h"
#ifdef HAS_GATHERS
#include "narrow_gathered_body.h"
#endif
#undef COLUMNS
#define COLUMNS 5
#include "narrow_body.h"
#undef COLUMNS
#define COLUMNS 6
#include "narrow_body.h"
#undef COLUMNS
#define COLUMNS 7
#include "narrow_body.h"
#undef COLUMNS
#endif
