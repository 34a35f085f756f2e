#include <avr/interrupt.h>

#include "hal/events.h"
#include "mote.h"

int main(void)
{
    sei();
    mote_start();
    for (;;) {
        mote_step();
        events_wait();
    }
}
