/** What IEEE 802.15.4 at 2.4 GHz says, whatever the chip: check sum, modulation, addresses. */
#pragma once

#include "world.h"

/** The check sum (from 0 on) with one more byte. It is sent low byte first. */
uint16_t ieee_fcs_add(uint16_t fcs, uint8_t byte);

/** The chance that a symbol, half a byte, is taken for another one, by an ideal receiver. */
double ieee_symbol_error(double sinr_db);

/** A byte whose symbols each had this chance of being taken for another one. */
uint8_t ieee_damage(random_t *chance, uint8_t byte, double error);

/** A receiver's addresses, as in a frame's header: little-endian. */
typedef struct {
    const uint8_t *pan, *short_address, *long_address;
    bool is_coordinator;
    bool takes_reserved; /* frames of reserved types */
    bool takes_beacons;  /* of any network */
} ieee_identity_t;

typedef enum { ADDRESS_UNKNOWN, ADDRESS_GOOD, ADDRESS_BAD } address_t;

/** Is a frame for this receiver, as far as its first `count` bytes show? (7.5.6.2 of the standard of 2003) */
address_t ieee_recognize(const uint8_t *frame, int count, const ieee_identity_t *identity);
