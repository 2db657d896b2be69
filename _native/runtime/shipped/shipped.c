/* Which generated kernels are there without a compiler. */
#include "kernels.h"

#include <string.h>

#include "matmul_api.h"
#include "shipped.h"
#include "shipped_api.h"

uintptr_t asp_shipped_kernel(const char *key)
{
#define TABLE(name) asp_shipped_##name,
#define TABLES(x, isa) {ASP_SHIPPED_##isa(TABLE) NULL},
    static const asp_shipped *const tables[][ASP_SHIPPED_TABLES + 1] = {ASP_EACH_ISA(TABLES, )};
    for (int isa = 0; isa <= asp_best_isa(); isa++)
        for (int kind = 0; tables[isa][kind]; kind++)
            for (const asp_shipped *one = tables[isa][kind]; one->key; one++)
                if (!strcmp(one->key, key)) return (uintptr_t)one->kernel;
    return 0;
}
