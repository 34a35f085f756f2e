#include "net/linkaddr.h"
extern uint8_t *nullnet_buf;
extern uint16_t nullnet_len;
typedef void (*nullnet_input_callback)(const void *data, uint16_t len, const linkaddr_t *src,
                                       const linkaddr_t *dest);
void nullnet_set_input_callback(nullnet_input_callback callback);
