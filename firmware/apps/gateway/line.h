/** The serial line up to the host: a queue of packets, framed into the UART as it has room. No function
 * waits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"

/** Bytes of packets that wait, each with a byte for its length. */
#ifndef LINE_ROOM
#if CAUSEWAY_SCHEDULED /* the messages of a period come within a window */
#define LINE_ROOM 1280
#elif CAUSEWAY_MIC_BYTES /* what proofs and checks need comes from here: the RAM that they take together is \
                          the same */
#define LINE_ROOM 640
#else
#define LINE_ROOM 768
#endif
#endif

/** Queue a packet, from its type byte on; false without room. */
bool line_put(const uint8_t *packet, uint8_t length);

/** Queue two packets, or none of them. */
bool line_put_pair(const uint8_t *first, uint8_t first_length, const uint8_t *second, uint8_t second_length);

/** Whether no packet waits. */
bool line_empty(void);

/** Queue an acknowledgement, which goes before all packets; false when several are already waiting. */
bool line_put_ack(uint8_t token);

/** Whether the queue's state is possible; if not, the queue is useless. */
bool line_sound(void);

/** Give the UART as much as it has room for. Call it on EVENT_UART_TX, and after queueing something. */
void line_service(void);
