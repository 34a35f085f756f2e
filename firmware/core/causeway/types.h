/** Integers of fixed width, and bool; and the marks around declarations that C++ may read, too. */
#ifndef CW_TYPES_H
#define CW_TYPES_H

#include <stdint.h>

/* nesC, which its own first header defines, knows no _Bool. TinyOS has a bool of its own, a byte as well. */
#ifndef DEPUTY_STAGE1_INCLUDED
#include <stdbool.h>
#endif

#ifdef __cplusplus
#define CW_C_BEGIN extern "C" {
#define CW_C_END }
#else
#define CW_C_BEGIN
#define CW_C_END
#endif

#endif
