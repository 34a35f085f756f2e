/* Firmware that tries what a board offers. A request is bytes on UART0; an answer is text, up to the byte 7E
 * that ends a serial frame.
 *
 *     n            the local time
 *     c            clock_now() read as fast as it goes for 2048 cycles: readings, how many less than the
 *                  reading before, longest step
 *     a HH HH      an alarm in this number of cycles: when it was set for, when its event came
 *     k            an alarm every 5 cycles, 200 times, each awaited asleep: how late the latest was
 *     g HH HH      EEPROM at this address
 *     p HH HH VV   EEPROM written
 *     l VV         leds_set()
 *     t VV         leds_toggle()
 *     d VV         a conversion of this channel
 *     e N bytes    these N bytes back
 *     f            with the UART off, sleep for 300 cycles in power-save; the time before and after
 *     r            radio_start()
 *     b            a beacon with its time
 *     s N bytes    these N bytes as a message
 *     i            cycles of the CPU / 8 that clock_now() takes
 *     w            start the watchdog and hang
 *     z            board_reset()
 *     y            board_reboot()
 *     q            board_start_cause()
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <stdio.h>
#include <string.h>

#include "hal/board.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/power.h"
#include "hal/radio.h"
#include "hal/uart.h"

static uint8_t taken; /* events that nobody has asked for yet */

static void wait_for(uint8_t event)
{
    while (!(taken & event)) {
        events_wait();
        taken |= events_take();
        if (taken & EVENT_RADIO) {
            taken &= (uint8_t)~EVENT_RADIO;
            radio_service();
        }
    }
    taken &= (uint8_t)~event;
}

static void say(const char *text)
{
    for (; *text != 0; text++)
        while (!uart_write((uint8_t)*text))
            wait_for(EVENT_UART_TX);
}

static uint8_t next_byte(void)
{
    for (;;) {
        int16_t byte = uart_read();
        if (byte >= 0)
            return (uint8_t)byte;
        wait_for(EVENT_UART_RX);
    }
}

static uint16_t next_word(void)
{
    uint16_t high = next_byte();
    return (uint16_t)(high << 8 | next_byte());
}

static char line[100];

static void try_reading(void)
{
    uint16_t readings = 0, back = 0;
    uint32_t begin = clock_now(), last = begin, step = 0;
    while (last - begin < 2048) {
        uint32_t now = clock_now();
        readings++;
        if (clock_before(now, last))
            back++;
        else if (now - last > step)
            step = now - last;
        last = now;
    }
    sprintf(line, "c %u %u %lu~", readings, back, (unsigned long)step);
    say(line);
}

static void try_alarm(uint16_t cycles)
{
    uint32_t when = clock_now() + cycles;
    clock_alarm(when);
    wait_for(EVENT_ALARM);
    uint32_t now = clock_now();
    sprintf(line, "a %lu %lu~", (unsigned long)when, (unsigned long)now);
    say(line);
}

static void try_alarms(void)
{
    uint32_t worst = 0, early = 0;
    for (uint8_t i = 0; i < 200; i++) {
        uint32_t when = clock_now() + 5;
        clock_alarm(when);
        wait_for(EVENT_ALARM);
        uint32_t late = clock_now() - when;
        if ((int32_t)late < 0)
            early++;
        else if (late > worst)
            worst = late;
    }
    sprintf(line, "k %lu %lu~", (unsigned long)worst, (unsigned long)early);
    say(line);
}

static void try_sleep(void)
{
    while (uart_room() < 60 || !(UCSR0A & _BV(UDRE0))) {
    }
    UCSR0B &= (uint8_t)~_BV(RXEN0);
    power_release(POWER_UART);
    uint32_t before = clock_now();
    clock_alarm(before + 300);
    wait_for(EVENT_ALARM);
    uint32_t after = clock_now();
    power_need(POWER_UART);
    UCSR0B |= _BV(RXEN0);
    sprintf(line, "f %lu %lu~", (unsigned long)before, (unsigned long)after);
    say(line);
}

static void try_cost(void)
{
    uint16_t begin, end;
    cli();
    begin = TCNT1;
    for (uint8_t i = 0; i < 8; i++)
        clock_now();
    end = TCNT1;
    sei();
    sprintf(line, "i %u~", (uint16_t)(end - begin));
    say(line);
}

static void send(uint8_t length, uint8_t stamp_at)
{
    radio_message_t message = {
        .dest = 0xFFFF, .source = 3, .type = 0x70, .group = CAUSEWAY_GROUP, .length = length};
    for (uint8_t i = 0; i < length; i++)
        message.data[i] = stamp_at == RADIO_NO_STAMP ? next_byte() : i;
    if (!radio_send(&message, clock_now() + 32768, stamp_at))
        say("refused~");
}

void radio_on_heard(const radio_heard_t *heard)
{
    sprintf(line, "heard %lu %d %u ", (unsigned long)heard->time, heard->rssi, heard->lqi);
    say(line);
    for (uint8_t i = 0; i < heard->message.length; i++) {
        sprintf(line, "%02x", heard->message.data[i]);
        say(line);
    }
    say("~");
}

void radio_on_sent(radio_result_t result, uint32_t time)
{
    sprintf(line, "sent %u %lu~", (unsigned)result, (unsigned long)time);
    say(line);
}

uint32_t radio_stamp(uint32_t local)
{
    return local;
}

static void obey(uint8_t command)
{
    uint16_t address;
    uint8_t count;
    switch (command) {
    case 'n':
        sprintf(line, "n %lu~", (unsigned long)clock_now());
        say(line);
        break;
    case 'c':
        try_reading();
        break;
    case 'a':
        try_alarm(next_word());
        break;
    case 'k':
        try_alarms();
        break;
    case 'g':
        address = next_word();
        sprintf(line, "g %02x~", eeprom_get(address));
        say(line);
        break;
    case 'p':
        address = next_word();
        eeprom_put(address, next_byte());
        say("p~");
        break;
    case 'l':
        leds_set(next_byte());
        say("l~");
        break;
    case 't':
        leds_toggle(next_byte());
        say("t~");
        break;
    case 'd':
        adc_start(next_byte());
        wait_for(EVENT_ADC);
        sprintf(line, "d %u~", adc_value());
        say(line);
        break;
    case 'v':
        adc_start_supply();
        wait_for(EVENT_ADC);
        sprintf(line, "v %u~", adc_value());
        say(line);
        break;
    case 'e':
        count = next_byte();
        while (count-- > 0) {
            uint8_t byte = next_byte();
            while (!uart_write(byte))
                wait_for(EVENT_UART_TX);
        }
        break;
    case 'f':
        try_sleep();
        break;
    case 'r':
        say(radio_start(77) ? "r 1~" : "r 0~");
        break;
    case 'b':
        send(14, 10);
        break;
    case 's':
        send(next_byte(), RADIO_NO_STAMP);
        break;
    case 'i':
        try_cost();
        break;
    case 'w':
        watchdog_start();
        for (;;) {
        }
    case 'y':
        board_reboot();
    case 'z':
        board_reset();
    case 'q':
        sprintf(line, "q %u~", board_start_cause());
        say(line);
        break;
    default:
        say("?~");
    }
}

int main(void)
{
    board_start();
    sei();
    uart_start();
    clock_start();
    sprintf(line, "hello %lu lost %u~", (unsigned long)clock_now(), uart_lost());
    say(line);
    for (;;)
        obey(next_byte());
}
