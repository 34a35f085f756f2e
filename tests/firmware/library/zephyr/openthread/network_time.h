#include <stdint.h>
typedef struct otInstance otInstance;
typedef enum {
    OT_NETWORK_TIME_UNSYNCHRONIZED = -1,
    OT_NETWORK_TIME_RESYNC_NEEDED = 0,
    OT_NETWORK_TIME_SYNCHRONIZED = 1,
} otNetworkTimeStatus;
otNetworkTimeStatus otNetworkTimeGet(otInstance *instance, uint64_t *time);
