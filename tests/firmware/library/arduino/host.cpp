/* Runs the sketch until it has sent as many messages as its argument says. */
#include "Arduino.h"
#include "EEPROM.h"

#include <stdio.h>
#include <stdlib.h>

SerialLine Serial;
Cells EEPROM;

static unsigned long now;
static int next = EOF;

void SerialLine::begin(unsigned long) {}

int SerialLine::available()
{
    if (next == EOF)
        next = getchar();
    return next != EOF;
}

int SerialLine::read()
{
    int byte = next;
    next = EOF;
    return byte;
}

size_t SerialLine::write(uint8_t byte)
{
    putchar(byte);
    return 1;
}

uint8_t Cells::read(int)
{
    return 4;
}

void Cells::write(int, uint8_t) {}

unsigned long millis()
{
    return now;
}

int analogRead(uint8_t)
{
    return 412;
}

int main(int, char **arguments)
{
    setup();
    for (unsigned long end = 5000UL * strtoul(arguments[1], nullptr, 10); now <= end; now += 100)
        loop();
    return 0;
}
