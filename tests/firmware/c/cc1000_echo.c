/* A MICA2 that answers what it hears: the data, the time and strength at which it came, and the time at which
 * the answer went. */
#include <avr/interrupt.h>
#include <string.h>

#include "causeway/bytes.h"
#include "hal/board.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/radio.h"

void radio_on_heard(const radio_heard_t *heard)
{
    radio_message_t answer = heard->message;
    uint8_t length = heard->message.length;

    cw_put32(&answer.data[length], heard->time);
    answer.data[length + 4] = (uint8_t)heard->rssi;
    answer.length = (uint8_t)(length + 9);
    answer.dest = (uint16_t)(heard->message.dest + 1);
    (void)radio_send(&answer, heard->time + 32768, (uint8_t)(length + 5));
}

void radio_on_sent(radio_result_t result, uint32_t time)
{
    (void)time;
    leds_set(result == RADIO_SENT ? LED_GREEN : LED_RED);
}

uint32_t radio_stamp(uint32_t local)
{
    return local;
}

int main(void)
{
    board_start();
    sei();
    clock_start();
    if (!radio_start(1))
        leds_set(LED_RED);
    for (;;)
        if (events_take() & EVENT_RADIO)
            radio_service();
}
