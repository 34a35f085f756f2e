/** Whether what was heard is new, and whether it is believed.
 *
 * In a network with a key every frame is checked before it is believed (net/mic.h). What is known already,
 * by its number or its MIC, is not checked again: it changes nothing. What could not be checked, or has no
 * time and may be played again, is known by its MIC alone: it must not hide what is true.
 */
#ifndef NET_ADMISSION_H
#define NET_ADMISSION_H

#include <stdbool.h>

#include "causeway/records.h"
#include "hal/radio.h"

typedef enum {
    ADMISSION_DUPLICATE, /* heard before; it is counted */
    ADMISSION_NEW,       /* new */
    ADMISSION_UNCHECKED, /* it cannot be checked without the time: to be passed on, and no more */
    ADMISSION_FORGED,    /* it is counted */
} admission_t;

/** Forget all that was heard. */
void admission_start(void);

/** A data message of another mote. */
admission_t admission_data(const radio_heard_t *heard, uint32_t now);

/** Whether a data message is right that we need not have heard for the first time. */
bool admission_is_authentic(const radio_heard_t *heard);

/** Whether another mote's health, of the right length, is new and right; if not, it is counted. */
bool admission_health(const radio_message_t *message);

/** Whether a command with this sequence, made at this time of the network, is new and right; without the
 * time: whether it is new. If it is not, it is counted. */
bool admission_command(const radio_message_t *message, uint16_t sequence, uint32_t made);

#endif
