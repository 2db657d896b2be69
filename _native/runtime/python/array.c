/* Reading NumPy's array objects without asking NumPy. */
#include "common.h"

#include "array_api.h"

uintptr_t asp_pointer_at(uintptr_t object, int64_t offset)
{
    uintptr_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}
