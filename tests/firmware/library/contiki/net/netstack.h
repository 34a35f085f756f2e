#include "net/linkaddr.h"
struct network_driver {
    uint8_t (*output)(const linkaddr_t *to);
};
extern const struct network_driver nullnet_driver;
#define NETSTACK_NETWORK nullnet_driver
