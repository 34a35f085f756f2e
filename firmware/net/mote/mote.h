/** What every mote does beside its app: it passes messages on, merges what it receives, reports its health,
 * obeys commands.
 *
 * Its id is one of 0 .. CAUSEWAY_MOTES - 1 (net/node.h).
 *
 * Commands (docs/reference/formats.md, downlink): report sends a health message now; blink lights LEDs for two seconds;
 * reboot resets two seconds later. All others are the app's.
 */
#ifndef MOTE_MOTE_H
#define MOTE_MOTE_H

#include "net/node.h"

/** Cycles between health messages. */
#ifndef MOTE_HEALTH_PERIOD
#if CAUSEWAY_SCHEDULED
#define MOTE_HEALTH_PERIOD (600 * CLOCK_SECOND) /* each takes as much as two messages */
#else
#define MOTE_HEALTH_PERIOD (60 * CLOCK_SECOND)
#endif
#endif

#endif
