#include <stdint.h>
uint64_t tsch_get_network_uptime_ticks(void);
