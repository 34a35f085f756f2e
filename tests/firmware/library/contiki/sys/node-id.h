#include <stdint.h>
extern uint16_t node_id;
