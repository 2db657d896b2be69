/* Conversions of values for one instruction set (ISA): functions, and a table of them; see widen.c. */
#ifndef ASP_WIDEN_BODY
#define ASP_WIDEN_BODY
#define OF(T, S) ASP_GLUE(T, of, S, ISA)
/* Define the conversion of values of type S to type T. */
#define WIDEN(T, S, VALUE)                                                  \
    static void OF(T, S)(void *restrict to, const void *restrict from, int64_t n) \
    {                                                                       \
        T *restrict wide = to;                                              \
        const S *restrict narrow = from;                                    \
        for (int64_t k = 0; k < n; k++) wide[k] = (T)(VALUE);               \
    }
/* Define the conversion of complex values (`words` 2) or real values (1) to a complex type with parts of type R. */
#define WIDEN_COMPLEX(T, R, S, words, VALUE, IMAGINARY)                     \
    static void OF(T, S)(void *restrict to, const void *restrict from, int64_t n) \
    {                                                                       \
        R *restrict wide = to;                                              \
        const words *restrict narrow = from;                                \
        for (int64_t k = 0; k < n; k++) {                                   \
            wide[2 * k] = (R)(VALUE);                                       \
            wide[2 * k + 1] = (R)(IMAGINARY);                               \
        }                                                                   \
    }

#define OF_8(T) WIDEN(T, u8, narrow[k]) WIDEN(T, i8, narrow[k])
#define OF_16(T) OF_8(T) WIDEN(T, u16, narrow[k]) WIDEN(T, i16, narrow[k])
#define OF_32(T) OF_16(T) WIDEN(T, u32, narrow[k]) WIDEN(T, i32, narrow[k])
#define REAL(T, R, S) WIDEN_COMPLEX(T, R, S, S, narrow[k], 0)
#define REAL_OF_16(T, R) REAL(T, R, u8) REAL(T, R, i8) REAL(T, R, u16) REAL(T, R, i16) REAL(T, R, f32)
#define AT_8(T) [4] = OF(T, bool_), [5] = OF(T, u8), [9] = OF(T, i8)
#define AT_16(T) AT_8(T), [6] = OF(T, u16), [10] = OF(T, i16)
#define AT_32(T) AT_16(T), [7] = OF(T, u32), [11] = OF(T, i32)
#define AT_64(T) AT_32(T), [8] = OF(T, u64), [12] = OF(T, i64)
#endif

WIDEN(u8, bool_, narrow[k] != 0)
WIDEN(u16, bool_, narrow[k] != 0) OF_8(u16)
WIDEN(u32, bool_, narrow[k] != 0) OF_16(u32)
WIDEN(u64, bool_, narrow[k] != 0) OF_32(u64)
WIDEN(f32, bool_, narrow[k] != 0) OF_16(f32)
WIDEN(f64, bool_, narrow[k] != 0) OF_32(f64)
WIDEN(f64, u64, narrow[k]) WIDEN(f64, i64, narrow[k]) WIDEN(f64, f32, narrow[k])
WIDEN_COMPLEX(c64, f32, bool_, bool_, narrow[k] != 0, 0) REAL_OF_16(c64, f32)
WIDEN_COMPLEX(c128, f64, bool_, bool_, narrow[k] != 0, 0) REAL_OF_16(c128, f64)
REAL(c128, f64, u32) REAL(c128, f64, i32) REAL(c128, f64, u64) REAL(c128, f64, i64) REAL(c128, f64, f64)
WIDEN_COMPLEX(c128, f64, c64, f32, narrow[2 * k], narrow[2 * k + 1])

/* By [dtype][stored]. */
static const asp_widen WIDENINGS(ISA)[9][13] = {
    [ASP_F32] = {AT_16(f32)},
    [ASP_F64] = {[ASP_F32] = OF(f64, f32), AT_64(f64)},
    [ASP_C64] = {[ASP_F32] = OF(c64, f32), AT_16(c64)},
    [ASP_C128] = {[ASP_F32] = OF(c128, f32), [ASP_F64] = OF(c128, f64), [ASP_C64] = OF(c128, c64), AT_64(c128)},
    [ASP_U8] = {[ASP_BOOL] = OF(u8, bool_)},
    [ASP_U16] = {AT_8(u16)},
    [ASP_U32] = {AT_16(u32)},
    [ASP_U64] = {AT_32(u64)},
};
