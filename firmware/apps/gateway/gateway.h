/** The gateway: hands every frame it hears to the host and what the host sends to the air; it may be the time
 * root.
 *
 * Each frame that goes up is preceded by its heard record; there is room for both or neither goes. Status and
 * health of the gateway itself go up without one. A packet from the host that wants an acknowledgement gets
 * one if its CRC is good. A host's message goes on the air as it is, but for group and source, which are set
 * to ours; one over the payload limit never does. A report or reboot command for the gateway itself is obeyed
 * and not sent; it reboots a second or two later. It runs under ids from CAUSEWAY_MOTES up, but not under
 * everybody's (65535); CAUSEWAY_ROOT makes it the time root (net/node.h).
 */
#ifndef APPS_GATEWAY_H
#define APPS_GATEWAY_H

#include <stdint.h>

/** Cycles between status records; every sixth time a health message as well. */
#ifndef GATEWAY_STATUS_PERIOD
#define GATEWAY_STATUS_PERIOD (10 * UINT32_C(32768))
#endif

#endif
