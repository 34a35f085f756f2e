/** Seals messages, and checks those of others: MICs of the network's key (docs/reference/security.md).
 *
 * A MIC is the first bytes of AES-128-CMAC over a header and the payload, without its MIC and with its hops
 * cleared: relays change these alone. The header has what need not travel: the layout's hash, the epoch, and
 * the whole time of which the stamp carries the low bits. So what is played again after its window has passed
 * is wrong.
 *
 * An AES block takes half a millisecond of the loop, never of an interrupt: a data message three, a beacon
 * two.
 *
 * Without a key MIC_BYTES is 0, and there are no such functions: `if (MIC_BYTES)` goes before a
 * call.
 */
#ifndef NET_MIC_H
#define NET_MIC_H

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"
#include "hal/radio.h"

/** A MIC's bytes; a record's bytes on the air: MIC_RECORD_BYTES(DOWNLINK); the cycles of the 32768 Hz crystal
 * that a relay takes to check a data message: what each hop needs more; and those that a proof takes behind
 * its beacon: two or three blocks, and its time on the air. */
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

/** Of a record's length, what is left without its MIC behind it. */
#define MIC_REST(length) ((uint8_t)((length)-MIC_BYTES))

/** A message's MIC. */
static inline const uint8_t *mic_of(const radio_message_t *message)
{
    return message->data + MIC_REST(message->length);
}

/** Start; takes a block. */
void mic_start(void);

/** Whether memory has kept what was made of the key. */
bool mic_sound(void);

/** Seal a data message of ours, whose stamp was made at this network time. */
void mic_write_data(uint8_t *payload, uint8_t length, uint32_t network);

/** Whether a data message is right, for one who heard it at this network time. */
bool mic_check_data(const uint8_t *payload, uint8_t length, uint32_t network);

/** The same for health, which has its epoch and time itself. */
void mic_write_health(uint8_t *payload);
bool mic_check_health(const uint8_t *payload);

/** When a command was made, by the network's time, if that was less than 256 s before or after `network`. */
uint32_t mic_command_time(const uint8_t *payload, uint32_t network);

/** Whether a command is right that was made then. */
bool mic_check_command(const uint8_t *payload, uint32_t made);

/** An Arrived speaks of one message alone: the one with this MIC. */
void mic_write_arrived(uint8_t *payload, const uint8_t *mic);
bool mic_check_arrived(const uint8_t *payload, const uint8_t *mic);

/** A Taken speaks of messages of the window that is open at this network time. */
void mic_write_taken(uint8_t *payload, uint32_t network);
bool mic_check_taken(const uint8_t *payload, uint32_t network);

/** The proof of a beacon as it went out; its MIC_RECORD_BYTES(PROOF). */
void mic_write_proof(uint8_t *proof, const uint8_t *beacon);
bool mic_check_proof(const uint8_t *proof, const uint8_t *beacon);

#endif
