/* Which generated kernels are there without a compiler. */
#include "kernels.h"

#include <string.h>

#include "matmul_api.h"
#include "shipped.h"
#include "shipped_api.h"

uintptr_t asp_shipped_kernel(const char *key)
{
#if ASP_X86
    static const asp_shipped *const tables[][29] = {
        {ASP_SHIPPED_TYPES(ASP_SHIPPED_TABLES, avx2)},
        {ASP_SHIPPED_TYPES(ASP_SHIPPED_TABLES, avx512), ASP_SHIPPED_TYPES(ASP_DICTIONARY_TABLES, avx512)}};
    for (int isa = 1; isa <= asp_best_isa(); isa++)
        for (int kind = 0; tables[isa - 1][kind]; kind++)
            for (const asp_shipped *one = tables[isa - 1][kind]; one->key; one++)
                if (!strcmp(one->key, key)) return (uintptr_t)one->kernel;
#endif
    (void)key;
    return 0;
}
