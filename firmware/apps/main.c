#include <avr/interrupt.h>

#include "hal/events.h"
#include "net/node.h"

int main(void)
{
    sei();
    node_start();
    for (;;) {
        node_step();
        events_wait();
    }
}
