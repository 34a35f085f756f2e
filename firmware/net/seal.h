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
 * Without a key SEAL_MIC_BYTES is 0, and there are no such functions: `if (SEAL_MIC_BYTES)` goes before a
 * call.
 */
#ifndef NET_SEAL_H
#define NET_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"
#include "hal/radio.h"

/** A MIC's bytes; a record's bytes on the air: SEAL_BYTES(DOWNLINK); the cycles of the 32768 Hz crystal that
 * a relay takes to check a data message: what each hop needs more; and those that a proof takes behind its
 * beacon: two or three blocks, and its time on the air. */
#if CAUSEWAY_MIC_BYTES
#define SEAL_MIC_BYTES CAUSEWAY_MIC_BYTES
#define SEAL_BYTES(RECORD) CAUSEWAY_##RECORD##_SEALED_BYTES
#define SEAL_HOP_TIME 66
#define SEAL_PROOF_TIME (64 + radio_airtime(SEAL_BYTES(PROOF)))
#else
#define SEAL_MIC_BYTES 0
#define SEAL_BYTES(RECORD) CAUSEWAY_##RECORD##_BYTES
#define SEAL_HOP_TIME 0
#define SEAL_PROOF_TIME 0
#endif

/** Of a record's length, what is left without its MIC behind it. */
#define SEAL_REST(length) ((uint8_t)((length)-SEAL_MIC_BYTES))

/** A message's MIC. */
static inline const uint8_t *seal_of(const radio_message_t *message)
{
    return message->data + SEAL_REST(message->length);
}

/** Start; takes a block. */
void seal_start(void);

/** Whether memory has kept what was made of the key. */
bool seal_sound(void);

/** Seal a data message of ours, whose stamp was made at this network time. */
void seal_data(uint8_t *payload, uint8_t length, uint32_t network);

/** Whether a data message is right, for one who heard it at this network time. */
bool seal_check_data(const uint8_t *payload, uint8_t length, uint32_t network);

/** The same for health, which has its epoch and time itself. */
void seal_health(uint8_t *payload);
bool seal_check_health(const uint8_t *payload);

/** When a command was made, by the network's time, if that was less than 256 s before or after `network`. */
uint32_t seal_command_time(const uint8_t *payload, uint32_t network);

/** Whether a command is right that was made then. */
bool seal_check_command(const uint8_t *payload, uint32_t made);

/** An Arrived speaks of one message alone: the one with this MIC. */
void seal_arrived(uint8_t *payload, const uint8_t *mic);
bool seal_check_arrived(const uint8_t *payload, const uint8_t *mic);

/** A Taken speaks of messages of the window that is open at this network time. */
void seal_taken(uint8_t *payload, uint32_t network);
bool seal_check_taken(const uint8_t *payload, uint32_t network);

/** The proof of a beacon as it went out; its SEAL_BYTES(PROOF). */
void seal_proof(uint8_t *proof, const uint8_t *beacon);
bool seal_check_proof(const uint8_t *proof, const uint8_t *beacon);

#endif
