/** Decides whether a frame that was heard is new, and whether to believe it.
 *
 * In a network with a key every frame is checked before it is believed (net/mic.h). A duplicate, by its
 * number or its MIC, is not checked again: it changes nothing. A message that cannot be checked, or that has
 * no time and may be replayed, is remembered by its MIC only, so that it hides no true message.
 */
#pragma once

#include <stdbool.h>

#include "causeway/records.h"
#include "hal/radio.h"

typedef enum {
    ADMISSION_DUPLICATE, /* heard before, and counted */
    ADMISSION_NEW,       /* new */
    ADMISSION_UNCHECKED, /* not to be checked without the time: to be forwarded, and no more */
    ADMISSION_FORGED,    /* counted */
} admission_t;

/** A data message of another mote. */
admission_t admission_data(const radio_heard_t *heard, uint32_t now);

/** Whether a data message, new or not, has a right MIC; always, without a key. */
bool admission_is_authentic(const radio_heard_t *heard);

/** Whether another mote's health, of the right length, is new and right. Counts it if not. */
bool admission_health(const radio_message_t *message);

/** Whether a command with this sequence, made at this network time, is new and right; without the time:
 * whether it is new. Counts it if not. */
bool admission_command(const radio_message_t *message, uint16_t sequence, uint32_t made);
