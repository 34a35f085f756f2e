/** The stock app: it sends the values of the deployment's [[data]], again and again.
 *
 * A value with a sensor is its reading, one without the number of the message. Without [[data]] a message
 * holds that number and those before it, 16 bits each, as many as fit. The command rate sets the mean cycles
 * between sends until the next start, 0 stops sending.
 */
#ifndef APPS_MOTE_H
#define APPS_MOTE_H

#include "net/node.h"

/** Mean cycles between sends, until a command changes it; each pause is drawn from 3/4 to 5/4 of it. */
#ifndef MOTE_PERIOD
#define MOTE_PERIOD (CAUSEWAY_SEND_SECONDS * CLOCK_SECOND)
#endif

#endif
