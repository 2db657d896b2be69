/* Operations of sweeps of one instruction set, for the sources sweeps_isa<level>.c. */
#include "sweeps.h"

#include "isa_begin.h"
#include "sweeps_each.h"

#include "isa_end.h"
