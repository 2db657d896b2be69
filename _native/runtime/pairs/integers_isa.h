/* Integer kernels of one instruction set, for the sources integers_isa<level>.c. */
#include "integers.h"

#include "isa_begin.h"
#include "integers_each.h"

#define TABLE_OF(isa) TABLE_OF_(isa)
#define TABLE_OF_(isa) asp_integers_##isa
const asp_kernels TABLE_OF(ISA)[5][2] = INTEGERS_TABLE;

#include "isa_end.h"
