/** Integers in payloads, in the deployment's byte order: little-endian on TinyOS 1, big-endian on TinyOS 2.
 *
 * Headers have their own byte order: am.c and air.c use the _le and _be forms.
 */
#ifndef CW_BYTES_H
#define CW_BYTES_H

#include <stdint.h>

#include "causeway_layout.h"

static inline void cw_put16_le(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline void cw_put16_be(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline uint16_t cw_get16_le(const uint8_t *at)
{
    return (uint16_t)(at[0] | (uint16_t)at[1] << 8);
}

static inline uint16_t cw_get16_be(const uint8_t *at)
{
    return (uint16_t)((uint16_t)at[0] << 8 | at[1]);
}

static inline void cw_put16(uint8_t *at, uint16_t value)
{
#if CAUSEWAY_BIG_ENDIAN
    cw_put16_be(at, value);
#else
    cw_put16_le(at, value);
#endif
}

static inline uint16_t cw_get16(const uint8_t *at)
{
#if CAUSEWAY_BIG_ENDIAN
    return cw_get16_be(at);
#else
    return cw_get16_le(at);
#endif
}

static inline void cw_put32(uint8_t *at, uint32_t value)
{
#if CAUSEWAY_BIG_ENDIAN
    cw_put16_be(at, (uint16_t)(value >> 16));
    cw_put16_be(at + 2, (uint16_t)value);
#else
    cw_put16_le(at, (uint16_t)value);
    cw_put16_le(at + 2, (uint16_t)(value >> 16));
#endif
}

static inline uint32_t cw_get32(const uint8_t *at)
{
#if CAUSEWAY_BIG_ENDIAN
    return (uint32_t)cw_get16_be(at) << 16 | cw_get16_be(at + 2);
#else
    return (uint32_t)cw_get16_le(at + 2) << 16 | cw_get16_le(at);
#endif
}

/** A mote's id as data messages carry it: one byte, or two in networks of 240 motes and more. */
static inline void cw_put_source(uint8_t *at, uint16_t source)
{
#if CAUSEWAY_SOURCE_BYTES == 1
    *at = (uint8_t)source;
#else
    cw_put16(at, source);
#endif
}

static inline uint16_t cw_get_source(const uint8_t *at)
{
#if CAUSEWAY_SOURCE_BYTES == 1
    return *at;
#else
    return cw_get16(at);
#endif
}

#endif
