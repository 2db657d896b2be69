/* Generated kernels that are compiled with the runtime; tables end with a key of NULL. shipped_list.h lists the tables. */
#ifndef ASP_SHIPPED_H
#define ASP_SHIPPED_H

#include "common.h"

typedef struct {
    const char *key; /* KernelSpec.key, or a name of slice_names.py */
    void (*kernel)(void);
} asp_shipped;

#include "shipped_list.h"

#define ASP_DECLARE(name) extern const asp_shipped asp_shipped_##name[];
#define ASP_DECLARE_ALL(x, isa) ASP_SHIPPED_##isa(ASP_DECLARE)
ASP_EACH_ISA(ASP_DECLARE_ALL, )
#undef ASP_DECLARE
#undef ASP_DECLARE_ALL

#endif
