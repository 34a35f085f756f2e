/** Health: what a mote reports of itself now and then. It is forwarded like data: its hops are in the same
 * bits of its own flags.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hal/radio.h"

/** Send ours; `battery` is as in the record. Return false, and count it, when no place is free. */
bool health_send(uint8_t battery);

/** Whether this is ours. */
bool health_is_ours(const radio_message_t *message);

/** Ours is about to be handed to the radio: write the time into it, and its MIC. */
void health_before_send(radio_message_t *message, uint32_t now);

/** A health message came in. */
void health_on_heard(const radio_message_t *message, uint32_t now);
