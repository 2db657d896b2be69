/* Functions of the allocator for results (output.c) that only the runtime calls. */
#ifndef ASP_OUTPUT_H
#define ASP_OUTPUT_H

#include <stddef.h>

/* Return a block of about *bytes bytes, and set *bytes to its size. Its first `used` bytes are those of `elements`, which is
 * NULL or a block of this allocator that the call frees; pages beyond `used` are not touched. A new block may be a tenth
 * smaller than wanted if it was freed by an earlier result; one that grows is not. Returns NULL without memory; `elements`
 * then remains valid. */
void *asp_output_resized(void *elements, size_t used, size_t *bytes);
/* Let the next allocation of the calling thread return `elements` if they are large enough; they are freed if not. NULL
 * has no effect. */
void asp_output_hand_over(void *elements);

#endif
