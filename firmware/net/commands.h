/** Commands of the host, which the network floods: each mote forwards and obeys a command once.
 *
 * In a network with a key a command is obeyed only if it is newer than the last few obeyed: a replayed
 * command does nothing.
 */
#pragma once

#include <stdint.h>

#include "hal/radio.h"

/** A new epoch: commands made before may have been obeyed before. */
void commands_on_epoch(void);

/** A downlink message came in. */
void commands_on_heard(const radio_message_t *message, uint32_t now);

/* What the user of this module defines. */

/** A command for this mote came in, for the first time. */
void commands_on_command(uint8_t command, uint32_t argument);
