/** Integers of fixed width, and bool. */
#ifndef CW_TYPES_H
#define CW_TYPES_H

#include <stdint.h>

/* nesC, which its own first header tells, knows no _Bool. TinyOS has a bool of its own, a byte as well. */
#ifndef DEPUTY_STAGE1_INCLUDED
#include <stdbool.h>
#endif

#endif
