/* Generated kernels that are compiled with the runtime; tables end with a key of NULL. */
#ifndef ASP_SHIPPED_H
#define ASP_SHIPPED_H

typedef struct {
    const char *key; /* KernelSpec.key */
    void (*kernel)(void);
} asp_shipped;

extern const asp_shipped asp_shipped_avx2[], asp_shipped_avx512[];

#endif
