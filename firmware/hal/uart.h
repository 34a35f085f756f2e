/** UART0 at 57600 baud, 8N1, buffered and driven by interrupts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

void uart_start(void);

/** How many bytes uart_write() would take now. */
uint8_t uart_room(void);

/** Queue a byte; return false without room. EVENT_UART_TX follows when all is sent. */
bool uart_write(uint8_t byte);

/** The next byte received, or -1. */
int16_t uart_read(void);

/** Bytes lost since start: receive buffer full, overrun or framing error in the hardware. Wraps. */
uint16_t uart_lost(void);
