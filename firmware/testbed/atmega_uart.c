/* UART 0 (data sheet: USART). Characters take the time that the registers say, in both directions. */
#include "atmega_private.h"

enum { FIFO_FRAMES = 2, SHIFT_FRAME = 3 };
enum { UCSRC_UPM1 = 0x20, UCSRC_USBS = 0x08, UCSRC_UCSZ = 0x06 };

static avr_cycle_count_t sent(avr_t *avr, avr_cycle_count_t when, void *param);
static avr_cycle_count_t arrived(avr_t *avr, avr_cycle_count_t when, void *param);

/* Processor cycles of a character: start bit, 5 to 8 data bits, perhaps a parity bit, 1 or 2 stop bits. */
static avr_cycle_count_t character(const atmega_t *mcu)
{
    const uint8_t *data = mcu->avr->data;
    unsigned divider = (data[REG_UBRR0L] | (data[REG_UBRR0H] & 0x0Fu) << 8) + 1;
    unsigned bit = divider * (data[REG_UCSR0A] & UCSRA_U2X ? 8 : 16);
    unsigned format = data[REG_UCSR0C];
    unsigned bits = 1 + 5 + (format & UCSRC_UCSZ) / 2 + (format & UCSRC_UPM1 ? 1 : 0) +
                    (format & UCSRC_USBS ? 2 : 1);
    return bit * bits;
}

static void show_status(atmega_t *mcu)
{
    const uart_t *uart = &mcu->uart;
    uint8_t *status = &mcu->avr->data[REG_UCSR0A];
    *status &= UCSRA_TXC | UCSRA_U2X | UCSRA_MPCM;
    *status |= uart->buffered ? 0 : UCSRA_UDRE;
    if (uart->received_count > 0) {
        *status |= UCSRA_RXC;
        *status |= uart->received[0].overrun ? UCSRA_DOR : 0;
    }
    atmega_interrupts_look(mcu);
}

/* --- sending --- */

static void send(atmega_t *mcu, uint8_t byte, avr_cycle_count_t begin)
{
    mcu->uart.sending = true;
    mcu->uart.shift = byte;
    atmega_timer(mcu, begin + character(mcu), sent, &mcu->clocked);
}

static avr_cycle_count_t sent(avr_t *avr, avr_cycle_count_t when, void *param)
{
    atmega_t *mcu = ((clocked_t *)param)->mcu;
    uart_t *uart = &mcu->uart;
    uint8_t byte = uart->shift;
    uart->sending = false;
    if (uart->buffered) {
        uart->buffered = false;
        send(mcu, uart->buffer, when);
    } else {
        avr->data[REG_UCSR0A] |= UCSRA_TXC;
    }
    show_status(mcu);
    if (mcu->watch.on_uart != NULL)
        mcu->watch.on_uart(mcu->watch.owner, byte);
    return 0;
}

static void data_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)address;
    atmega_t *mcu = param;
    uart_t *uart = &mcu->uart;
    if ((avr->data[REG_UCSR0B] & UCSRB_TXEN) == 0)
        return;
    if (uart->buffered) {
        atmega_fault(mcu, "UDR0 is written while it is full");
    } else if (uart->sending) {
        uart->buffered = true;
        uart->buffer = value;
    } else {
        send(mcu, value, avr->cycle);
    }
    show_status(mcu);
}

/* --- receiving --- */

/* The start bit of the next character on the line, if there is one. */
static void begin_character(atmega_t *mcu, avr_cycle_count_t begin)
{
    uart_t *uart = &mcu->uart;
    if (uart->line_count == 0)
        return;
    uart->hearing = (mcu->avr->data[REG_UCSR0B] & UCSRB_RXEN) != 0 && !mcu->nap.io_stopped;
    if (uart->hearing && uart->received_count == SHIFT_FRAME) {
        uart->received_count = FIFO_FRAMES; /* it makes room for this one */
        uart->lost = true;
    }
    atmega_timer(mcu, begin + character(mcu), arrived, mcu);
}

static avr_cycle_count_t arrived(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr;
    atmega_t *mcu = param;
    uart_t *uart = &mcu->uart;
    if (uart->line_count == 0)
        return 0; /* power has just gone */
    uint8_t byte = uart->line[uart->line_first];
    uart->line_first = (uart->line_first + 1) % LINE_BYTES;
    uart->line_count--;
    if (uart->hearing && !mcu->nap.io_stopped) {
        uart->received[uart->received_count++] = (uart_frame_t){byte, uart->lost};
        uart->lost = false;
        show_status(mcu);
    }
    begin_character(mcu, when);
    return 0;
}

static uint8_t data_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    (void)avr, (void)address;
    atmega_t *mcu = param;
    uart_t *uart = &mcu->uart;
    uint8_t byte = uart->received[0].byte;
    if (uart->received_count > 0) {
        uart->received[0] = uart->received[1];
        uart->received[1] = uart->received[2];
        uart->received_count--;
    }
    show_status(mcu);
    return byte;
}

static void stop_receiving(uart_t *uart)
{
    uart->received_count = 0;
    uart->lost = false;
    uart->hearing = false;
}

int atmega_uart_room(const atmega_t *mcu)
{
    return LINE_BYTES - mcu->uart.line_count;
}

bool atmega_uart_feed(atmega_t *mcu, const uint8_t *bytes, int count)
{
    uart_t *uart = &mcu->uart;
    if (count > atmega_uart_room(mcu))
        return false;
    bool idle = uart->line_count == 0;
    for (int i = 0; i < count && mcu->on; i++)
        uart->line[(uart->line_first + uart->line_count++) % LINE_BYTES] = bytes[i];
    if (idle)
        begin_character(mcu, mcu->avr->cycle);
    return true;
}

/* --- control --- */

static void status_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    uint8_t txc = avr->data[address] & (uint8_t)~value & UCSRA_TXC;
    avr->data[address] = txc | (value & (UCSRA_U2X | UCSRA_MPCM));
    show_status(param);
}

static void control_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    atmega_t *mcu = param;
    avr->data[address] = value;
    if ((value & UCSRB_RXEN) == 0)
        stop_receiving(&mcu->uart);
    show_status(mcu);
}

void atmega_uart_make(atmega_t *mcu)
{
    atmega_own(mcu, REG_UDR0, data_read, data_written);
    atmega_own(mcu, REG_UCSR0A, NULL, status_written);
    atmega_own(mcu, REG_UCSR0B, NULL, control_written);
    atmega_own(mcu, REG_UCSR0C, NULL, NULL);
    atmega_own(mcu, REG_UBRR0L, NULL, NULL);
    atmega_own(mcu, REG_UBRR0H, NULL, NULL);
}

void atmega_uart_reset(atmega_t *mcu)
{
    uart_t *uart = &mcu->uart;
    uart->sending = uart->buffered = false;
    stop_receiving(uart);
    mcu->avr->data[REG_UCSR0A] = 0;
    mcu->avr->data[REG_UCSR0B] = 0;
    mcu->avr->data[REG_UCSR0C] = UCSRC_UCSZ;
    show_status(mcu);
    begin_character(mcu, mcu->avr->cycle); /* the line goes on */
}

void atmega_uart_off(atmega_t *mcu)
{
    mcu->uart.line_count = 0;
}
