#include <avr/interrupt.h>

#include "hal/events.h"
#include "gateway.h"

int main(void)
{
    sei();
    gateway_start();
    for (;;) {
        gateway_step();
        events_wait();
    }
}
