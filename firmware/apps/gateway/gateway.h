/** The gateway: hands every frame it hears to the host and what the host sends to the air; it may be the time root.
 *
 * Each frame that goes up is preceded by its heard record; there is room for both or neither goes. Status and health
 * of the gateway itself go up without one. A packet from the host that wants an acknowledgement gets one if its CRC is good. A host's
 * message goes on the air as it is, but for group and source, which are set to ours; one over the payload limit never does.
 * A report or reboot command for the gateway itself is obeyed and not sent; it reboots a second or two later.
 */
#ifndef APPS_GATEWAY_H
#define APPS_GATEWAY_H

#include <stdint.h>

/** Cycles between status records; every sixth time a health message as well. */
#ifndef GATEWAY_STATUS_PERIOD
#define GATEWAY_STATUS_PERIOD (10 * UINT32_C(32768))
#endif

/** The id of this node, unless EEPROM holds one (net/store.h). CAUSEWAY_ROOT makes it the time root. */
extern volatile uint16_t TOS_NODE_ID;

/** Start everything. Interrupts are on. With an id that is a mote's (below CAUSEWAY_MOTES) or everybody's (65535) nothing is started
 *  but board_refuse(). */
void gateway_start(void);

/** Do all there is to do. Then events_wait(), and again. */
void gateway_step(void);

#endif
