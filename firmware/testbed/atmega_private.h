/** What the parts of the emulated ATmega128 know of each other: atmega.c (time, power, reset), atmega_run.c
 * (instructions and interrupts), atmega_sleep.c, and the peripherals in files of their own.
 *
 * The library decodes instructions, and keeps ports, timers 1 to 3, UART 1 and the two-wire interface.
 * Everything else is ours. Parts that need the processor in a handler find it in avr->custom.data.
 */
#pragma once

#include <stddef.h>

#include <simavr/sim_interrupts.h>
#include <simavr/sim_io.h>

#include "atmega.h"
#include "meter.h"

enum {
    REG_PINF = 0x20,
    REG_PINE = 0x21,
    REG_ADCL = 0x24,
    REG_ADCH = 0x25,
    REG_ADCSRA = 0x26,
    REG_ADMUX = 0x27,
    REG_ACSR = 0x28,
    REG_UBRR0L = 0x29,
    REG_UCSR0B = 0x2A,
    REG_UCSR0A = 0x2B,
    REG_UDR0 = 0x2C,
    REG_SPCR = 0x2D,
    REG_SPSR = 0x2E,
    REG_SPDR = 0x2F,
    REG_DDRE = 0x22,
    REG_PIND = 0x30,
    REG_DDRD = 0x31,
    REG_PINC = 0x33,
    REG_DDRC = 0x34,
    REG_PINB = 0x36,
    REG_DDRB = 0x37,
    REG_PINA = 0x39,
    REG_DDRA = 0x3A,
    REG_DDRF = 0x61,
    REG_DDRG = 0x64,
    REG_EECR = 0x3C,
    REG_EEDR = 0x3D,
    REG_EEARL = 0x3E,
    REG_EEARH = 0x3F,
    REG_SFIOR = 0x40,
    REG_WDTCR = 0x41,
    REG_TCCR2 = 0x45,
    REG_TCCR1B = 0x4E,
    REG_ASSR = 0x50,
    REG_OCR0 = 0x51,
    REG_TCNT0 = 0x52,
    REG_TCCR0 = 0x53,
    REG_MCUCSR = 0x54,
    REG_MCUCR = 0x55,
    REG_TIFR = 0x56,
    REG_TIMSK = 0x57,
    REG_EIFR = 0x58,
    REG_EIMSK = 0x59,
    REG_EICRB = 0x5A,
    REG_PING = 0x63,
    REG_EICRA = 0x6A,
    REG_ETIFR = 0x7C,
    REG_ETIMSK = 0x7D,
    REG_TCCR3B = 0x8A,
    REG_UBRR0H = 0x90,
    REG_UCSR0C = 0x95,
    REG_UCSR1B = 0x9A,
};

enum {
    VECTOR_INT0 = 1,
    VECTOR_INT3 = 4,
    VECTOR_INT4 = 5,
    VECTOR_INT7 = 8,
    VECTOR_TIMER2_COMP = 9,
    VECTOR_TIMER2_OVF = 10,
    VECTOR_TIMER1_CAPT = 11,
    VECTOR_TIMER1_COMPA = 12,
    VECTOR_TIMER1_OVF = 14,
    VECTOR_TIMER0_COMP = 15,
    VECTOR_TIMER0_OVF = 16,
    VECTOR_SPI = 17,
    VECTOR_UART0_RX = 18,
    VECTOR_UART0_UDRE = 19,
    VECTOR_UART0_TX = 20,
    VECTOR_ADC = 21,
    VECTOR_EEPROM = 22,
    VECTOR_TIMER1_COMPC = 24,
    VECTOR_TIMER3_CAPT = 25,
    VECTOR_TIMER3_COMPA = 26,
    VECTOR_TIMER3_OVF = 29,
    VECTOR_UART1_RX = 30,
    VECTOR_TWI = 33,
    VECTOR_SPM = 34,
};

enum {
    UCSRA_RXC = 0x80,
    UCSRA_TXC = 0x40,
    UCSRA_UDRE = 0x20,
    UCSRA_DOR = 0x08,
    UCSRA_U2X = 0x02,
    UCSRA_MPCM = 0x01
};
enum { UCSRB_RXEN = 0x10, UCSRB_TXEN = 0x08 };
enum { SPCR_SPE = 0x40, SPCR_MSTR = 0x10 };
enum { ADCSRA_ADEN = 0x80, ADCSRA_ADSC = 0x40, ADCSRA_ADFR = 0x20, ADCSRA_ADIF = 0x10 };
enum { EECR_EERIE = 8, EECR_EEMWE = 4, EECR_EEWE = 2, EECR_EERE = 1 };
enum { WDTCR_WDCE = 0x10, WDTCR_WDE = 0x08, WDTCR_WDP = 0x07 };
enum { ASSR_AS0 = 8, ASSR_TCN0UB = 4, ASSR_OCR0UB = 2, ASSR_TCR0UB = 1 };
enum { TIMER0_FLAGS = 3, TCCR_CS = 7 };

enum { CALLS = 32, FAULTS = 64, LINE_BYTES = 1024, ADC_CHANNELS = 8 };

/** A call that was asked for: atmega_at(). */
typedef struct {
    atmega_t *mcu;
    atmega_due_t *due; /* NULL: free */
    void *param;
    ns_t when;
} call_t;

/** The 32768 Hz crystal. Cycles are in 2^-16. */
typedef struct {
    uint64_t nhz; /* its rate in 10^-9 Hz */
    bool runs;
    avr_cycle_count_t since; /* at this cycle of the main clock ... */
    uint64_t done;           /* ... it had done so many cycles */
} crystal_t;

/** A register of timer 0 that takes over what was written at the second edge of the crystal. */
typedef struct {
    uint8_t value; /* written last */
    uint8_t busy;  /* its bit in ASSR while that is under way, else 0 */
    uint64_t edge; /* when it takes over */
} latch_t;

typedef struct {
    uint64_t edge;      /* the crystal's edge up to which all is done */
    uint64_t prescaler; /* the edge at which the prescaler was 0 */
    uint8_t count, compare, control;
    bool blocked; /* the count has just been written: no match until the next */
    latch_t to_count, to_compare, to_control;
    uint64_t overflow_edge; /* 0, or the edge after which TOV0 shows; */
    uint64_t compare_edge;  /* the same of OCF0 */
    uint8_t stale;          /* what TCNT0 shows ... */
    uint64_t stale_until;   /* ... before this edge */
} timer0_t;

typedef struct {
    uint8_t byte;
    bool overrun; /* something before it was lost */
} uart_frame_t;

typedef struct {
    bool sending, buffered;
    uint8_t shift, buffer;
    uart_frame_t received[3]; /* the third is still in the shift register */
    int received_count;
    bool lost;
    uint8_t line[LINE_BYTES]; /* what comes in on the line */
    int line_first, line_count;
    bool hearing; /* the receiver was on when the character on the line began */
} uart_t;

typedef struct {
    atmega_exchange_t *exchange;
    void *param;
    uint8_t shift, received;
    bool busy; /* a byte is on its way: SPDR cannot be written */
    bool seen; /* SPSR was read with SPIF or WCOL set */
} spi_t;

typedef struct {
    struct {
        atmega_millivolts_t *millivolts;
        void *param;
    } inputs[ADC_CHANNELS];
    bool fresh;  /* the next conversion is the first since it was switched on */
    bool locked; /* ADCL was read, ADCH not yet */
    uint8_t mux; /* ADMUX when the conversion began */
    uint16_t value;
    avr_cycle_count_t clock_since; /* phase of its clock */
} adc_t;

typedef struct {
    uint8_t *bytes;
    uint16_t address;
    uint8_t value;            /* being written */
    ns_t ready;               /* when that is done */
    avr_cycle_count_t opened; /* when EEMWE was set */
} eeprom_t;

typedef struct {
    ns_t patted;
    avr_cycle_count_t opened; /* when WDCE was set */
} watchdog_t;

typedef enum { AWAKE, ASLEEP, WAKING } sleep_state_t;

typedef struct {
    avr_cycle_timer_t timer;
    void *param;
    avr_cycle_count_t left;
} frozen_t;

typedef struct {
    sleep_state_t state;
    uint8_t mode;
    bool io_stopped; /* the I/O clock stands still */
    avr_cycle_count_t stopped_at;
    frozen_t frozen[MAX_CYCLE_TIMERS];
    int frozen_count;
    uint8_t flags[3]; /* EIFR, TIFR, ETIFR when it stopped */
    bool timer0_woke; /* the last waking from power-save, and ... */
    uint64_t woke_at; /* ... when, in crystal cycles and 2^-16 */
} nap_t;

typedef struct {
    bool on;
    atmega_use_t use;
    avr_cycle_count_t since, asleep; /* the last answer, and cycles asleep since */
    avr_cycle_count_t open;          /* interrupts were on last, or it slept */
    bool half;                       /* of the stack pointer only the upper byte has been written */
    int handler;                     /* the vector of the handler that runs, or 0 */
    avr_cycle_count_t entered;       /* its first instruction */
    uint16_t left;                   /* the stack pointer after its return */
    bool owed;                       /* the SPI's next byte has not been written, ... */
    avr_cycle_count_t shifted;       /* ... though the last one ended here */
} measure_t;

/** For cycle timers that stand still with the I/O clock. Those whose parameter is the processor itself, or a
 * call, go on. */
typedef struct {
    atmega_t *mcu;
} clocked_t;

/* The bits of a register that enable an interrupt. */
typedef struct {
    uint16_t at;
    uint8_t bits;
} atmega_mask_t;

struct atmega {
    avr_t *avr;
    atmega_watch_t watch;
    clocked_t clocked;
    bool on;
    ns_t off_time;                /* the time while it is off */
    ns_t off_since, off_before;   /* when that began, and how long it was off before */
    uint64_t uhz;                 /* the main clock's rate in 10^-6 Hz */
    ns_t base_time;               /* the true time of ... */
    avr_cycle_count_t base_cycle; /* ... this cycle */
    bool running;                 /* within atmega_run() */
    avr_cycle_count_t end;        /* where that ends */
    bool reset_wanted;
    reset_cause_t reset_cause;
    crystal_t crystal;
    timer0_t timer0;
    uart_t uart;
    spi_t spi;
    adc_t adc;
    eeprom_t eeprom;
    watchdog_t watchdog;
    nap_t nap;
    meter_t states; /* in cycles; those off apart, in which there are none */
    uint32_t start_cycles;
    measure_t measure;
    call_t calls[CALLS];
    avr_int_vector_t *vectors[ATMEGA_VECTORS]; /* by number */
    atmega_mask_t masks[ATMEGA_VECTORS];       /* what lets them through; no bits: nothing does */
    uint8_t led_port, led_direction, lit;
    char *faults[FAULTS];
    int fault_count;
};

static inline atmega_t *atmega_of(const avr_t *avr)
{
    return avr->custom.data;
}

/* --- atmega.c --- */

/** Report a fault, unless it has been. */
void atmega_fault(atmega_t *mcu, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The true time of a cycle, and the first cycle at or after a true time. */
ns_t atmega_time_of(const atmega_t *mcu, avr_cycle_count_t cycle);
avr_cycle_count_t atmega_cycle_at(const atmega_t *mcu, ns_t time);

/** Call `timer` at a cycle, or in the next one. */
void atmega_timer(atmega_t *mcu, avr_cycle_count_t when, avr_cycle_timer_t timer, void *param);

/** Take over a register; NULL leaves reading or writing to plain memory. */
void atmega_own(atmega_t *mcu, avr_io_addr_t address, avr_io_read_t read, avr_io_write_t write);

/** The reset itself, not from within a cycle timer. */
void atmega_do_reset(atmega_t *mcu, reset_cause_t cause);

/** The first cycle at or after an edge of the crystal; UINT64_MAX while that stands still. */
avr_cycle_count_t atmega_edge_cycle(const atmega_t *mcu, uint64_t edge);

/* --- atmega_run.c --- */

void atmega_interrupts_make(atmega_t *mcu);

/** A flag or a mask has changed: look whether an interrupt is due. */
void atmega_interrupts_look(atmega_t *mcu);

/** Is the interrupt's condition there, its mask apart? */
bool atmega_interrupt_raised(const atmega_t *mcu, const avr_int_vector_t *vector);

/** Is any due that can be taken, or can end the present sleep? */
bool atmega_interrupt_is_due(const atmega_t *mcu);

bool atmega_interrupt_is_level(const atmega_t *mcu, int vector);

/** Register again what a reset of the library has dropped. */
void atmega_run_again(atmega_t *mcu);

/* --- atmega_sleep.c --- */

void atmega_sleep_reset(atmega_t *mcu);

/** A SLEEP instruction was executed. */
void atmega_sleep_begin(atmega_t *mcu);

/** Can this interrupt end the present sleep? */
bool atmega_sleep_ends_by(const atmega_t *mcu, int vector);

/** An interrupt that can end it is there: wake up, now or when the oscillator has started. */
void atmega_sleep_end(atmega_t *mcu, bool by_timer0);

/* --- atmega_measure.c --- */

/** Run the next instruction and see what it takes; gives the address of the one after it. */
avr_flashaddr_t atmega_measure_instruction(atmega_t *mcu);

/** A handler's first instruction is next; the SPI, as a slave, has shifted a byte; SPDR is written; `cycles`
 * were slept; a reset. */
void atmega_measure_handler(atmega_t *mcu, int vector);
void atmega_measure_shifted(atmega_t *mcu);
void atmega_measure_written(atmega_t *mcu);
void atmega_measure_sleep(atmega_t *mcu, avr_cycle_count_t cycles);
void atmega_measure_reset(atmega_t *mcu);

/* --- peripherals: each takes over its registers once, and is reset with the processor --- */

void atmega_timer0_make(atmega_t *mcu);
void atmega_timer0_reset(atmega_t *mcu);
void atmega_timer0_catch_up(atmega_t *mcu);
void atmega_timer0_plan(atmega_t *mcu);
bool atmega_timer0_is_busy(atmega_t *mcu);
void atmega_timer0_sleeps(atmega_t *mcu);
void atmega_timer0_wakes(atmega_t *mcu);

void atmega_uart_make(atmega_t *mcu);
void atmega_uart_reset(atmega_t *mcu);
void atmega_uart_off(atmega_t *mcu);

void atmega_spi_make(atmega_t *mcu);
void atmega_spi_reset(atmega_t *mcu);

void atmega_adc_make(atmega_t *mcu);
void atmega_adc_reset(atmega_t *mcu);
void atmega_adc_sleeps(atmega_t *mcu);

void atmega_eeprom_make(atmega_t *mcu);
void atmega_eeprom_reset(atmega_t *mcu);

void atmega_watchdog_make(atmega_t *mcu);
void atmega_watchdog_reset(atmega_t *mcu);
