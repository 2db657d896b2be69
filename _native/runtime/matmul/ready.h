/* Precompiled kernels: one function per value type and prefetch distance (in nonzeros), because callers have nothing
 * but a kernel's address to identify it. */
#ifndef ASP_READY_H
#define ASP_READY_H

#define READY_BOTH(DEFINE, ahead) DEFINE(ASP_F32, ahead) DEFINE(ASP_F64, ahead)
#define READY_ALL(DEFINE) \
    READY_BOTH(DEFINE, 0) READY_BOTH(DEFINE, 4) READY_BOTH(DEFINE, 8) READY_BOTH(DEFINE, 16) READY_BOTH(DEFINE, 64)

#define READY_CASE(ahead) \
    case ahead: return (uintptr_t)(dtype == ASP_F32 ? ready_ASP_F32_##ahead : ready_ASP_F64_##ahead);
/* Return the address of ready_<dtype>_<prefetch>, or 0 if there is none. */
#define READY_ADDRESS(dtype, prefetch) \
    switch (prefetch) {                \
        READY_CASE(0)                  \
        READY_CASE(4)                  \
        READY_CASE(8)                  \
        READY_CASE(16)                 \
        READY_CASE(64)                 \
    default: return 0;                 \
    }

#endif
