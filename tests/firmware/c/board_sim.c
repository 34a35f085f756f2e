/* One MICAz on libsimavr (GPLv3, and so is this program). Commands come on standard input:
 *
 *     uart HEX        bytes to UART0
 *     run MS          so many milliseconds
 *     frame HEX       a frame on the air, its delimiter 1 ms from now
 *     pins            what drives the LEDs: port A, low three bits
 *     adc N MV        voltage at an ADC channel
 *     masked          the longest time in CPU cycles with interrupts off since this was last asked, and where it ended
 *
 * What happens goes to standard output, with its time in CPU cycles: `uart HEX`, `air SFD HEX`, `sfd`, `pins`, `masked`.
 */
#include <simavr/avr_adc.h>

#include "micaz_sim.h"

static micaz_t mote;
static char from_uart[2 * 4096];
static int from_uart_count;
static avr_cycle_count_t from_uart_since;

static void on_delimiter(micaz_t *which)
{
    printf("%llu sfd\n", (unsigned long long)which->mcu.avr->cycle);
}

static void on_sent(chip_t *which, uint64_t sfd, const uint8_t *bytes, int count)
{
    (void)which;
    printf("%llu air %llu ", (unsigned long long)mote.mcu.avr->cycle, (unsigned long long)cycle_of(sfd));
    for (int i = 0; i < count; i++) {
        printf("%02x", bytes[i]);
    }
    printf("\n");
}

static void on_uart(atmega_t *which, uint8_t byte)
{
    if (from_uart_count == 0) {
        from_uart_since = which->avr->cycle;
    }
    from_uart_count += sprintf(from_uart + from_uart_count, "%02x", byte);
    if (from_uart_count > 8000 || byte == '\n') {
        printf("%llu uart %s\n", (unsigned long long)from_uart_since, from_uart);
        from_uart_count = 0;
    }
}

/* --- running --- */

static avr_cycle_count_t masked_since, masked_longest;
static uint32_t masked_where;

static void watch_mask(void)
{
    if (mote.mcu.avr->sreg[S_I]) {
        if (mote.mcu.avr->cycle - masked_since > masked_longest) {
            masked_longest = mote.mcu.avr->cycle - masked_since;
            masked_where = (uint32_t)mote.mcu.avr->pc;
        }
        masked_since = mote.mcu.avr->cycle;
    }
}

static void run(double ms)
{
    avr_cycle_count_t end = mote.mcu.avr->cycle + (avr_cycle_count_t)(ms * HZ / 1000);
    atmega_stop_at(&mote.mcu, end);
    while (mote.mcu.avr->cycle < end) {
        if (mote.mcu.avr->state == cpu_Sleeping) {
            masked_since = mote.mcu.avr->cycle;
        }
        atmega_run(&mote.mcu);
        if (mote.mcu.avr->state == cpu_Sleeping) {
            masked_since = mote.mcu.avr->cycle;
        }
        watch_mask();
    }
    fflush(stdout);
}

static void obey(const char *line)
{
    char word[20], hex[1100];
    double ms;
    unsigned channel, millivolts;
    if (sscanf(line, "%19s", word) != 1) {
        return;
    }
    if (strcmp(word, "run") == 0 && sscanf(line, "run %lf", &ms) == 1) {
        run(ms);
    } else if (strcmp(word, "uart") == 0 && sscanf(line, "uart %1099s", hex) == 1) {
        atmega_uart_hex(&mote.mcu, hex);
    } else if (strcmp(word, "frame") == 0 && sscanf(line, "frame %1099s", hex) == 1) {
        uint8_t bytes[130];
        micaz_catch_up(&mote);
        chip_add_frame(&mote.chip, mote.chip.now + US(1000), bytes, unhex(hex, bytes, sizeof bytes), 5, 107);
        micaz_schedule(&mote);
    } else if (strcmp(word, "pins") == 0) {
        printf("%llu pins %d %d\n", (unsigned long long)mote.mcu.avr->cycle, mote.mcu.avr->data[0x3B] & 7, mote.mcu.avr->data[0x3A] & 7);
    } else if (strcmp(word, "masked") == 0) {
        printf("%llu masked %llu %x\n", (unsigned long long)mote.mcu.avr->cycle, (unsigned long long)masked_longest, masked_where);
        masked_longest = 0;
    } else if (strcmp(word, "adc") == 0 && sscanf(line, "adc %u %u", &channel, &millivolts) == 2) {
        avr_raise_irq(avr_io_getirq(mote.mcu.avr, AVR_IOCTL_ADC_GETIRQ, (int)(ADC_IRQ_ADC0 + channel)), millivolts);
    } else {
        fprintf(stderr, "what is %s\n", line);
        exit(2);
    }
}

int main(int count, char **arguments)
{
    if (count != 2 || !micaz_make(&mote, arguments[1])) {
        fprintf(stderr, "usage: board_sim FIRMWARE.elf\n");
        return 2;
    }
    mote.mcu.on_uart = on_uart;
    mote.on_delimiter = on_delimiter;
    mote.chip.on_sent = on_sent;
    char line[1200];
    while (fgets(line, sizeof line, stdin) != NULL) {
        obey(line);
    }
    return 0;
}
