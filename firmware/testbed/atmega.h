/** An ATmega128 of a mote on libsimavr, put right where the library differs from the chip.
 *
 * Its main clock (7.3728 MHz) and its 32768 Hz crystal each have an error of their own against true time.
 * Instructions, ports and timers 1 to 3 are the library's. Interrupts and the time they take, sleep, reset,
 * timer 0 on the crystal, UART 0, SPI, ADC, EEPROM and watchdog are ours. Not emulated: timer 0 on the main
 * clock or in a PWM mode, differential channels of the ADC, the time that the oscillator takes to start after
 * a reset, what happens to pins between a reset and their being driven again.
 */
#pragma once

#include <simavr/sim_avr.h>

#include "world.h"

enum { ATMEGA_HZ = 7372800, ATMEGA_RAM = 0x0100, ATMEGA_RAM_END = 0x10FF, ATMEGA_VECTORS = 35 };

typedef enum { RESET_POWER_ON, RESET_BUTTON, RESET_BROWN_OUT, RESET_WATCHDOG } reset_cause_t;

/** What the processor does, as far as its current depends on it. Starting: an interrupt has come, and the
 * main oscillator starts. */
typedef enum {
    PROCESSOR_ACTIVE,
    PROCESSOR_IDLE,
    PROCESSOR_NOISE_REDUCTION,
    PROCESSOR_POWER_DOWN,
    PROCESSOR_POWER_SAVE,
    PROCESSOR_STANDBY,
    PROCESSOR_EXTENDED_STANDBY,
    PROCESSOR_STARTING,
    PROCESSOR_OFF,
    PROCESSOR_STATES,
} processor_state_t;

typedef struct atmega atmega_t;

/** What its surroundings want to know; any may be NULL. */
typedef struct {
    /* the program did what a real chip would not forgive; each kind once a run */
    void (*on_fault)(void *owner, const char *what);
    void (*on_uart)(void *owner, uint8_t byte); /* a byte has left UART 0 */
    void (*on_leds)(void *owner, uint8_t lit);  /* 1 red, 2 green, 4 yellow */
    void (*on_reset)(void *owner, reset_cause_t cause);
    void *owner;
} atmega_watch_t;

/** A processor with the program of an ELF file in its flash, off. NULL when the file is none; why is on
 * standard error. */
atmega_t *atmega_make(const char *image, double main_ppm, double crystal_ppm, atmega_watch_t watch);

/** Power on at a moment not before the present one; RAM holds what `random` says; with NULL it is the end of
 * a brown-out: RAM holds what it held when power went off, and that is the cause of the reset. Or power off
 * at once. */
void atmega_on(atmega_t *mcu, ns_t at, random_t *random);
void atmega_off(atmega_t *mcu);
bool atmega_is_on(const atmega_t *mcu);

/** Reset at once; when called from within atmega_run(), before the next instruction. The watchdog does that
 * by itself. RAM stays. */
void atmega_reset(atmega_t *mcu, reset_cause_t cause);

/** Run until true time `until`, and to the end of the instruction then. A processor that is off just lets
 * time pass. */
void atmega_run(atmega_t *mcu, ns_t until);

/** Until when it has nothing to do, if no other part disturbs it: atmega_run() up to then changes nothing. */
ns_t atmega_idle_until(const atmega_t *mcu);

/** The true time of its present cycle, and how much of it since 0 it was in a state. */
ns_t atmega_now(const atmega_t *mcu);
ns_t atmega_spent(const atmega_t *mcu, processor_state_t state);

/** How often its main oscillator was started again. */
uint64_t atmega_starts(const atmega_t *mcu);

/** Cycles that the main oscillator takes to start after power-down and power-save: what the fuses say, 16384
 * unless set. */
void atmega_start_cycles(atmega_t *mcu, uint32_t cycles);

/** Call `due` at true time `when` (at once, that is in the next cycle, if it has passed), between two
 * instructions. One call for each pair of `due` and `param`; NEVER takes it back. It outlives resets of the
 * processor; nothing is called while power is off, what was due then follows when it is back. */
typedef void atmega_due_t(void *param, ns_t now);
void atmega_at(atmega_t *mcu, ns_t when, atmega_due_t *due, void *param);

/** The library's object of a pin: for avr_raise_irq() and avr_irq_register_notify(). */
avr_irq_t *atmega_pin(atmega_t *mcu, char port, int bit);

/** Call `look` whenever the program is about to read the pins of a port, once for each port: for a level that
 * would cost too much to keep. */
typedef void atmega_look_t(void *param);
void atmega_before_read(atmega_t *mcu, char port, atmega_look_t *look, void *param);

/** SPI as master: called at the end of each byte's time with what went out; gives what came in. */
typedef uint8_t atmega_exchange_t(void *param, uint8_t out);
void atmega_spi_master(atmega_t *mcu, atmega_exchange_t *exchange, void *param);

/** SPI as slave: a byte's time has ended, `in` was shifted in. Gives false when the SPI is off or not a
 * slave. The byte to go out next is taken half a bit later: atmega_spi_taken(), for which the caller sets a
 * time, gives what SPDR then holds: `in` itself, if the program was too slow. Writing to SPDR after that is a
 * write collision. */
bool atmega_spi_shifted(atmega_t *mcu, uint8_t in);
uint8_t atmega_spi_taken(atmega_t *mcu);

/** The voltage at an ADC pin when a conversion samples it. */
typedef uint32_t atmega_millivolts_t(void *param);
void atmega_adc(atmega_t *mcu, int channel, atmega_millivolts_t *millivolts, void *param);

/** The supply, which is also the ADC's reference (3000 unless set). */
void atmega_supply(atmega_t *mcu, uint32_t millivolts);
uint32_t atmega_supply_now(const atmega_t *mcu);

/** Bytes to UART 0, one after the other at its speed. False, and nothing taken, without room for all. */
bool atmega_uart_feed(atmega_t *mcu, const uint8_t *bytes, int count);
int atmega_uart_room(const atmega_t *mcu);

/** The crystal stops, or runs again. */
void atmega_crystal(atmega_t *mcu, bool runs);

/** Crystal cycles since power on, whole ones and 2^-16: the truth about timer 0. */
uint64_t atmega_crystal_cycles(const atmega_t *mcu);

/** What TCNT0 is now; how many crystal cycles it takes from count to count (0: it stands still), and where
 * the prescaler is, 0 to 1023. */
uint8_t atmega_crystal_count(const atmega_t *mcu);
unsigned atmega_crystal_divider(const atmega_t *mcu);
unsigned atmega_crystal_prescaler(const atmega_t *mcu);

/** Data memory: registers and RAM. */
uint8_t *atmega_data(atmega_t *mcu);

/** What a program has taken since it was last asked; times are in cycles of the main clock. */
typedef struct {
    uint16_t stack;         /* the most bytes on it */
    uint64_t cycles, awake; /* all, and those not asleep */
    uint32_t masked;        /* the longest time with interrupts off, awake */
    uint32_t spi; /* the longest from a byte's end to the writing of the next, as a slave that drives MISO */
    uint32_t handlers[ATMEGA_VECTORS]; /* by vector: the longest from its first instruction to its return;
                                          those apart that were interrupted themselves */
} atmega_use_t;

/** Measure from now on, at the cost of half the speed; what has been measured since the last call. */
void atmega_measure(atmega_t *mcu);
atmega_use_t atmega_use(atmega_t *mcu);

void atmega_eeprom_write(atmega_t *mcu, uint16_t at, const uint8_t *bytes, uint16_t count);
void atmega_eeprom_read(atmega_t *mcu, uint16_t at, uint8_t *bytes, uint16_t count);
