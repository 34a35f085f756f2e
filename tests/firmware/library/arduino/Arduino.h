/* As much of Arduino as the sketch uses. On a host the serial line is standard input and output, and the time
 * goes on by 100 ms with each look at it. */
#ifndef ARDUINO_H
#define ARDUINO_H

#include <stddef.h>
#include <stdint.h>

#define A0 0

struct SerialLine {
    void begin(unsigned long speed);
    int available();
    int read();
    size_t write(uint8_t byte);
};

extern SerialLine Serial;

unsigned long millis();
int analogRead(uint8_t pin);
void setup();
void loop();

#endif
