/* The table of functions that the extension module looks up, without cffi, in programs that end early. */
#include <stddef.h>
#include <stdint.h>

#include "exports.h"

#define ASP_MEMBER(name) .name = name,
extern const asp_functions asp_exported;
__attribute__((visibility("default"))) const asp_functions asp_exported = {ASP_FUNCTIONS(ASP_MEMBER)};
