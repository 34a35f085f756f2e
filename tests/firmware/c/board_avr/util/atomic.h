#ifndef BOARD_AVR_ATOMIC_H
#define BOARD_AVR_ATOMIC_H

#include <stdint.h>

#include <avr/io.h>

#define ATOMIC_RESTORESTATE
#define ATOMIC_BLOCK(kind) \
    for (uint8_t was __attribute__((cleanup(fake_unlock))) = fake_lock(), todo = 1; todo; todo = 0)

#endif
