/** What all parts of the testbed share: true time and chance.
 *
 * Time is true time since the start of the run, in nanoseconds. Each mote's processor and crystal run faster
 * or slower than it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t ns_t;

#define NEVER UINT64_MAX
#define US(x) ((ns_t)(x)*1000)
#define MS(x) ((ns_t)(x)*1000000)
#define SECOND ((ns_t)1000000000)

/** Chance: the same seed and stream give the same numbers on every machine. Each part that draws has a stream
 * of its own, so that one draw more in one place changes nothing elsewhere. (splitmix64) */
typedef struct {
    uint64_t state;
} random_t;

static inline uint64_t random_bits(random_t *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/** A stream of a seed. */
static inline random_t random_stream(uint64_t seed, uint64_t stream)
{
    random_t random = {seed};
    random.state = random_bits(&random) ^ stream * UINT64_C(0xD1342543DE82EF95);
    random_bits(&random);
    return random;
}

/** 0 <= x < 1. */
static inline double random_unit(random_t *random)
{
    return (double)(random_bits(random) >> 11) * 0x1p-53;
}

/** 0 .. below - 1. */
static inline uint32_t random_below(random_t *random, uint32_t below)
{
    return (uint32_t)((random_bits(random) >> 32) * below >> 32);
}
