/* Includes BODY for index arrays of int32 and of int64 (not guarded): names of the body are made by NAME(x), the index
 * type is INDEX. ASP_BY_INDEX calls the right one. */
#define INDEX int32_t
#define NAME(x) x##_int32
#include BODY
#undef INDEX
#undef NAME
#define INDEX int64_t
#define NAME(x) x##_int64
#include BODY
#undef INDEX
#undef NAME
#undef BODY
