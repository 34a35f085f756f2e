/** The serial line up to the host: a queue of packets, framed into the UART as it has room. Nothing here
 * waits. */
#ifndef APPS_LINE_H
#define APPS_LINE_H

#include <stdbool.h>
#include <stdint.h>

/** Bytes of packets that wait, each with a byte for its length. */
#ifndef LINE_ROOM
#define LINE_ROOM 768
#endif

/** Queue a packet, from its type byte on; false when there is no room. */
bool line_put(const uint8_t *packet, uint8_t length);

/** Queue two packets, or none of them. */
bool line_put_pair(const uint8_t *first, uint8_t first_length, const uint8_t *second, uint8_t second_length);

/** Queue an acknowledgement, which goes before all packets; false when several wait already. */
bool line_put_ack(uint8_t token);

/** The queue's state is one that can be; a queue for which it is not takes and gives nothing good. */
bool line_sound(void);

/** Give the UART what it has room for. On EVENT_UART_TX, and after something was queued. */
void line_service(void);

#endif
