#include "ieee802154.h"

#include <math.h>
#include <string.h>

uint16_t ieee_fcs_add(uint16_t fcs, uint8_t byte)
{
    fcs = (uint16_t)(fcs ^ byte);
    for (int bit = 0; bit < 8; bit++)
        fcs = (uint16_t)(fcs & 1 ? (fcs >> 1) ^ 0x8408 : fcs >> 1);
    return fcs;
}

/* The chance that a symbol is taken for another one: 16-ary orthogonal modulation, found without its phase
 * (IEEE 802.15.4, annex E). */
double ieee_symbol_error(double sinr_db)
{
    /* 16 over 2..16 */
    static const double choose[] = {120,  560,  1820, 4368, 8008, 11440, 12870, 11440,
                                    8008, 4368, 1820, 560,  120,  16,    1};
    double ratio = pow(10, sinr_db / 10);
    if (ratio > 3.5)
        return 0;
    double sum = 0;
    for (int k = 2; k <= 16; k++)
        sum += (k % 2 ? -1 : 1) * choose[k - 2] * exp(20 * ratio * (1.0 / k - 1));
    return fmax(0, fmin(sum, 15)) / 16;
}

uint8_t ieee_damage(random_t *chance, uint8_t byte, double error)
{
    for (int shift = 0; error > 0 && shift < 8; shift += 4)
        if (random_unit(chance) < error)
            byte = (uint8_t)(byte ^ (1 + random_below(chance, 15)) << shift);
    return byte;
}

static uint16_t pair(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static bool source_fits(const ieee_identity_t *identity, int type, bool has_source, const uint8_t *fields)
{
    bool mine = has_source && pair(fields) == pair(identity->pan);
    if (type == 0)
        return identity->takes_beacons || mine;
    return type == 2 || (mine && identity->is_coordinator);
}

static bool destination_fits(const ieee_identity_t *identity, int mode, const uint8_t *fields)
{
    uint16_t pan = pair(fields), address = pair(fields + 2);
    if (pan != 0xFFFF && pan != pair(identity->pan))
        return false;
    if (mode == 3)
        return memcmp(fields + 2, identity->long_address, 8) == 0;
    return address == 0xFFFF || address == pair(identity->short_address);
}

address_t ieee_recognize(const uint8_t *frame, int count, const ieee_identity_t *identity)
{
    static const int sizes[] = {0, 0, 4, 10}; /* PAN and address, by addressing mode */
    if (count < 2)
        return ADDRESS_UNKNOWN;
    int type = frame[0] & 7, destination = frame[1] >> 2 & 3, source = frame[1] >> 6;
    if (type > 3)
        return identity->takes_reserved ? ADDRESS_GOOD : ADDRESS_BAD;
    if (destination == 1 || source == 1)
        return ADDRESS_BAD;
    const uint8_t *fields = frame + 3, *source_fields = fields + sizes[destination];
    bool needs_source = destination == 0 || type == 0;
    if (count < 3 + sizes[destination] + (needs_source && source != 0 ? 2 : 0))
        return ADDRESS_UNKNOWN;
    bool fits = destination == 0 || destination_fits(identity, destination, fields);
    fits = fits && (!needs_source || source_fits(identity, type, source != 0, source_fields));
    return fits ? ADDRESS_GOOD : ADDRESS_BAD;
}
