/* Access to fields of NumPy's array objects without NumPy's API. */
#include "common.h"

#include "array_api.h"

uintptr_t asp_pointer_at(uintptr_t object, int64_t offset)
{
    uintptr_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}
