/** The mote samples a sensor, sends to its peers, merges what it receives, reports its health, obeys
 * commands.
 *
 * A message's application data are the newest reading and those before it, 16 bits each, as many as fit.
 * Its id is one of 0 .. CAUSEWAY_MOTES - 1 (net/node.h).
 *
 * Commands (docs/formats.md, downlink): rate sets the mean cycles between sends until the next start, 0 stops
 * sending; report sends a health message now; blink lights LEDs for two seconds; reboot resets two seconds
 * later.
 */
#ifndef APPS_MOTE_H
#define APPS_MOTE_H

#include <stdint.h>

#include "causeway_layout.h"

/** Mean cycles between sends, until a command changes it; each pause is drawn from 3/4 to 5/4 of it. */
#ifndef MOTE_PERIOD
#define MOTE_PERIOD (CAUSEWAY_SEND_SECONDS * UINT32_C(32768))
#endif

/** Cycles between health messages. */
#ifndef MOTE_HEALTH_PERIOD
#define MOTE_HEALTH_PERIOD (60 * UINT32_C(32768))
#endif

/** ADC channel of the sensor; without a sensor the readings are a counter. MTS300, MTS310 and MDA100 have
 * light on channel 1. */
#define MOTE_NO_SENSOR 0xFF
#ifndef MOTE_SENSOR
#define MOTE_SENSOR MOTE_NO_SENSOR
#endif

#endif
