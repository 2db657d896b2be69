/* WACONet's convolutions of one instruction set, for the sources waconet_isa<level>.c. */
#include "waconet.h"

#include "isa_begin.h"
#define SETS (VBYTES / 16)
#include "waconet_body.h"

#include "isa_end.h"
