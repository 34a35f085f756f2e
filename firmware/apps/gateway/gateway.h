/** The gateway hands every frame it hears to the host and sends the host's messages. It may be the time root.
 *
 * A heard record goes up before each frame; without room for both, neither goes. Status and health of the
 * gateway itself go up without one. Where several gateways serve the network, an idle record says how far
 * the gateway's time is when nothing went up for a while. A packet from the host that wants an
 * acknowledgement gets one if its CRC is good. A host's message goes on the air with our group and source;
 * one over the payload limit does not. A report or reboot command for the gateway itself is obeyed and not
 * sent; it reboots a second or two later. Its id is CAUSEWAY_MOTES or more, but not the broadcast id
 * 65535; CAUSEWAY_ROOT makes it the time root (net/node.h).
 */
#ifndef APPS_GATEWAY_H
#define APPS_GATEWAY_H

#include <stdint.h>

#include "hal/clock.h"

/** Cycles between status records; every sixth comes with a health message. */
#ifndef GATEWAY_STATUS_PERIOD
#define GATEWAY_STATUS_PERIOD (10 * CLOCK_SECOND)
#endif

/** Cycles without a frame after which an idle record goes up: 20 ms. */
#ifndef GATEWAY_IDLE_PERIOD
#define GATEWAY_IDLE_PERIOD (CLOCK_SECOND / 50)
#endif

#endif
