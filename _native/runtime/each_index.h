/* Include the file BODY twice, with INDEX defined as int32_t and as int64_t. The body names its functions by NAME(x);
 * ASP_BY_INDEX calls the variant of an index type. Has no include guard. */
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
