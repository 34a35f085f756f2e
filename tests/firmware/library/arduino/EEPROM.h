#ifndef EEPROM_H
#define EEPROM_H

#include <stdint.h>

struct Cells {
    uint8_t read(int at);
    void write(int at, uint8_t value);
};

extern Cells EEPROM;

#endif
