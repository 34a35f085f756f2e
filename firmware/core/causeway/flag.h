/** A truth value that is kept in memory.
 *
 * Not a bool: where memory has changed a bool to something other than 0 and 1, C does not say what happens.
 * Of a flag, 0 is false and all else is true.
 */
#ifndef CW_FLAG_H
#define CW_FLAG_H

#include <stdint.h>

typedef uint8_t cw_flag_t;

#endif
