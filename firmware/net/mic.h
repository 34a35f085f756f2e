/** Writes and checks MICs: check sums with the network's key (docs/reference/security.md).
 *
 * A MIC is the first bytes of AES-128-CMAC over a header and the payload, without the MIC and with the hops
 * cleared, which change as the message is forwarded. The header has values that need not travel: the layout's
 * hash, the epoch, and the whole time of which the stamp carries the low bits. So a message replayed after
 * its window has a wrong MIC.
 *
 * An AES block takes half a millisecond of the loop, never of an interrupt: a data message three, a beacon
 * two.
 *
 * Without a key MIC_BYTES is 0, and these functions do not exist: `if (MIC_BYTES)` goes before a call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"
#include "hal/radio.h"

/** A MIC's bytes; a record's bytes on the air: MIC_RECORD_BYTES(DOWNLINK); the cycles of the 32768 Hz crystal
 * that a mote takes to check a data message, at each hop; and those that a proof takes behind its beacon: two
 * or three blocks, and its time on the air. */
#if CAUSEWAY_MIC_BYTES
#define MIC_BYTES CAUSEWAY_MIC_BYTES
#define MIC_RECORD_BYTES(RECORD) CAUSEWAY_##RECORD##_SEALED_BYTES
#define MIC_HOP_TIME 66
#define MIC_PROOF_TIME (64 + radio_airtime(MIC_RECORD_BYTES(PROOF)))
#else
#define MIC_BYTES 0
#define MIC_RECORD_BYTES(RECORD) CAUSEWAY_##RECORD##_BYTES
#define MIC_HOP_TIME 0
#define MIC_PROOF_TIME 0
#endif

/** A record's length without the MIC behind it. */
#define MIC_REST(length) ((uint8_t)((length)-MIC_BYTES))

/** A message's MIC. */
static inline const uint8_t *mic_of(const radio_message_t *message)
{
    return message->data + MIC_REST(message->length);
}

/** Start; takes a block. */
void mic_start(void);

/** Whether memory has kept the subkey. */
bool mic_sound(void);

/** Write the MIC of a data message of ours, whose stamp was made at this network time. */
void mic_write_data(uint8_t *payload, uint8_t length, uint32_t network);

/** Whether the MIC of a data message heard at this network time is right. */
bool mic_check_data(const uint8_t *payload, uint8_t length, uint32_t network);

/** The same for health, which has its epoch and time itself. */
void mic_write_health(uint8_t *payload);
bool mic_check_health(const uint8_t *payload);

/** When a command was made, by the network's time, if that was less than 256 s before or after `network`. */
uint32_t mic_command_time(const uint8_t *payload, uint32_t network);

/** Whether the MIC of a command that was made then is right. */
bool mic_check_command(const uint8_t *payload, uint32_t made);

/** An Arrived is for one message only: the one with this MIC. */
void mic_write_arrived(uint8_t *payload, const uint8_t *mic);
bool mic_check_arrived(const uint8_t *payload, const uint8_t *mic);

/** A Taken is for messages of the window that is open at this network time. */
void mic_write_taken(uint8_t *payload, uint32_t network);
bool mic_check_taken(const uint8_t *payload, uint32_t network);

/** The proof of a beacon as it went out; its MIC_RECORD_BYTES(PROOF). */
void mic_write_proof(uint8_t *proof, const uint8_t *beacon);
bool mic_check_proof(const uint8_t *proof, const uint8_t *beacon);
