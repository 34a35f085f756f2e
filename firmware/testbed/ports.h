/** A mote's UART offered to other programs: as a TCP port of 127.0.0.1 and as a pty. The bytes are the
 * line's, nothing around them.
 *
 * Several TCP clients may be there at once: each gets every byte, and what any of them sends goes to the
 * mote. A client that does not read is disconnected when a megabyte waits for it; a pty without a reader
 * loses what does not fit. Neither ever stops the motes.
 */
#pragma once

#include "world.h"

typedef struct port port_t;

/** Open them. `tcp`: a port number, 0 for any, -1 for none. `link`: a path that will lead to the pty, or
 * NULL. NULL, and why on standard error, when it can't be done. */
port_t *port_open(int tcp, const char *link);
void port_close(port_t *port);

int port_tcp(const port_t *port);         /* its number, or -1 */
const char *port_pty(const port_t *port); /* the path of the link, or NULL */
bool port_had_client(const port_t *port); /* since it was opened, on TCP */

/** A byte for whoever listens: it goes out with the next ports_poll(). */
void port_put(port_t *port, uint8_t byte);

/** Bytes for the mote, at most `most`; their number. */
int port_take(port_t *port, uint8_t *bytes, int most);

/** Let new clients in, send and receive; waits up to `ms` for something to do. */
void ports_poll(port_t *const *ports, int count, int ms);
