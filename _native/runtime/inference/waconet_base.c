/* WACONet for any processor. */
#include "waconet.h"

#define ISA base
#define SETS 1
#include "waconet_body.h"
