#ifndef LINKADDR_H
#define LINKADDR_H
#include <stdint.h>
typedef union {
    uint8_t u8[8];
} linkaddr_t;
#endif
