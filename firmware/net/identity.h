/** Keeps the node's id and boot count, from its start on. */
#pragma once

#include <stdint.h>

/** To be called before the other functions. */
void identity_start(uint16_t id, uint16_t boots);

/** The node's id. If memory has changed it, the node restarts. */
uint16_t identity_id(void);

/** The number of starts before this one, modulo 65536; kept like the id. */
uint16_t identity_boots(void);
