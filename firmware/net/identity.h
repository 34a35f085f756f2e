/** Who this node is, from its start on: the one place where it is kept. */
#ifndef NET_IDENTITY_H
#define NET_IDENTITY_H

#include <stdint.h>

/** Before all that asks. */
void identity_start(uint16_t id, uint16_t boots);

/** The node's id. Never another's: if memory has not kept it, the node restarts. */
uint16_t identity_id(void);

/** Starts before this one, modulo 65536; kept as the id is. */
uint16_t identity_boots(void);

#endif
