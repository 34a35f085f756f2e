/* The CC2420 driver on a host, against the testbed's chip on an ether. Commands come on standard input, one a
 * line; what happened goes to standard output, each line with its time in microseconds:
 *
 *     pin NAME LEVEL        VREG_EN and RESETn
 *     spi OUT:IN ...        one access, from CSn low to CSn high
 *     air HEX               a frame that the chip has sent, with its delimiter's time
 *     heard ...             radio_on_heard()
 *     unsure CYCLES         and its `error`, if it is not 0
 *     sent RESULT TIME      radio_on_sent()
 *     fault WORDS           the chip was used in a way that its data sheet forbids
 *
 * Every call of a board's function takes a little time, so that interrupts come in between as they do in a
 * mote.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chips/cc2420/cc2420_board.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/power.h"
#include "hal/radio.h"
#include "testbed/cc2420.h"
#include "../../testbed/c/unhex.h"

enum { KHZ = 2480000, RXFIFO_READ = 0x7F, TX_ACTIVE = 0x08, RSSI_UNSET = 1000 };

static ether_t *ether;
static cc2420_t *chip;
static uint64_t now;
static uint64_t chip_at = NEVER;
static bool level[CC2420_PINS];
static bool selected;
static bool dumb;                                /* the chip does not answer */
static bool no_sfd;                              /* it says that it sends and never comes to an end */
static int forced_rssi = RSSI_UNSET, forced_lqi; /* what it says of a frame, in place of what it found */
static uint8_t pending;
static bool locked, in_interrupt;
static bool listening, rising = true, fifop_edge, capture_edge;
static uint16_t captured;
static uint64_t timer_at = NEVER;
static bool timer_due;
static bool quiet;
static uint8_t power_users;
static uint64_t stamp_takes; /* microseconds spent in radio_stamp() */
static uint64_t heard_takes; /* and in radio_on_heard() */
static bool blind;           /* the board does not see SFD */

static void note(const char *what)
{
    printf("%llu %s", (unsigned long long)(now / 1000), what);
}

/* --- time and interrupts --- */

static uint16_t counter_at(uint64_t now)
{
    return (uint16_t)(now * 9216 / 10000000);
}

static void interrupts(void)
{
    if (locked || in_interrupt)
        return;
    in_interrupt = true;
    while (fifop_edge || capture_edge || timer_due) {
        if (fifop_edge) {
            fifop_edge = false;
            cc2420_on_fifop();
        } else if (capture_edge) {
            capture_edge = false;
            cc2420_on_capture(captured);
        } else {
            timer_due = false;
            cc2420_on_timer();
        }
    }
    in_interrupt = false;
}

static void on_sfd(bool high)
{
    level[CC2420_SFD] = high;
    if (listening && high == rising) {
        capture_edge = true;
        captured = counter_at(now);
    }
}

static void on_pin(void *owner, cc2420_pin_t pin, bool high)
{
    (void)owner;
    if (pin != CC2420_SFD) {
        level[pin] = high;
        fifop_edge = fifop_edge || (pin == CC2420_FIFOP && high && listening);
    } else if (!blind && !no_sfd) {
        on_sfd(high);
    }
}

static void on_at(void *owner, ns_t when)
{
    (void)owner;
    chip_at = when;
}

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    note("fault");
    printf(" %s\n", what);
}

static void pass(uint64_t ns)
{
    uint64_t end = now + ns;
    while (true) {
        uint64_t next = timer_at < chip_at ? timer_at : chip_at;
        if (next > end)
            break;
        if (next > now)
            now = next;
        if (timer_at <= now) {
            timer_at = NEVER;
            timer_due = true;
        }
        if (chip_at <= now) {
            chip_at = NEVER;
            cc2420_due(chip, now);
        }
        interrupts();
    }
    if (now < end)
        now = end;
    ether_tidy(ether, now);
    interrupts();
}

/* --- hal --- */

uint32_t clock_now(void)
{
    pass(2000);
    return (uint32_t)(now * 32768 / 1000000000);
}

uint32_t clock_of_capture(uint16_t capture)
{
    uint16_t age = (uint16_t)(counter_at(now) - capture);
    return (uint32_t)(now * 32768 / 1000000000) - ((age * 2330U + 0x8000U) >> 16);
}

void events_post(uint8_t events)
{
    pending |= events;
}

void power_need(uint8_t user)
{
    power_users |= user;
}

void power_release(uint8_t user)
{
    power_users &= (uint8_t)~user;
}

/* --- the board --- */

static char access_text[2000];
static size_t access_size;

void cc2420_board_start(void)
{
    listening = false;
    timer_at = NEVER;
    timer_due = fifop_edge = capture_edge = false;
    cc2420_board_power(false);
    cc2420_board_reset(true);
}

void cc2420_board_power(bool on)
{
    pass(500);
    if (!quiet) {
        note("pin VREG_EN");
        printf(" %d\n", on);
    }
    cc2420_vreg(chip, on, now);
}

void cc2420_board_reset(bool hold)
{
    pass(500);
    if (!quiet) {
        note("pin RESETn");
        printf(" %d\n", !hold);
    }
    cc2420_resetn(chip, !hold, now);
}

void cc2420_board_select(bool select)
{
    assert(select != selected && "an access inside an access");
    pass(500);
    selected = select;
    cc2420_csn(chip, !select, now);
    if (select) {
        access_size = 0;
        access_text[0] = 0;
    } else if (!quiet) {
        note("spi");
        printf("%s\n", access_text);
    }
}

/* What the chip is made to say in place of its answer. */
static uint8_t force(uint8_t byte, uint8_t answer)
{
    static int command, at, length;
    at = access_size == 0 ? 0 : at + 1;
    if (at == 0) {
        command = byte;
        return no_sfd ? answer | TX_ACTIVE : answer;
    }
    if (at == 1)
        length = answer;
    if (command != RXFIFO_READ || forced_rssi == RSSI_UNSET || at < length || at == 1)
        return answer;
    return at == length ? (uint8_t)forced_rssi : (uint8_t)((answer & 0x80) | forced_lqi);
}

uint8_t cc2420_board_exchange(uint8_t byte)
{
    assert(selected);
    pass(4000);
    uint8_t answer = dumb ? 0 : force(byte, cc2420_exchange(chip, byte, now));
    int wrote = snprintf(access_text + access_size, sizeof access_text - access_size, " %02x:%02x", byte,
                         answer);
    access_size += (size_t)wrote;
    return answer;
}

bool cc2420_board_fifo(void)
{
    pass(500);
    return level[CC2420_FIFO];
}

bool cc2420_board_fifop(void)
{
    pass(500);
    return level[CC2420_FIFOP];
}

bool cc2420_board_cca(void)
{
    pass(500);
    return cc2420_cca(chip, now);
}

bool cc2420_board_sfd(void)
{
    pass(500);
    return level[CC2420_SFD];
}

void cc2420_board_wait(uint16_t us)
{
    pass(US(us));
}

void cc2420_board_listen(bool on)
{
    listening = on;
    rising = true;
    fifop_edge = capture_edge = false;
}

void cc2420_board_capture_rising(bool edge)
{
    assert(locked || in_interrupt);
    rising = edge;
    capture_edge = false;
}

uint16_t cc2420_board_counter(void)
{
    pass(1000);
    return counter_at(now);
}

void cc2420_board_timer(uint16_t counts)
{
    assert(counts >= 32);
    timer_due = false;
    timer_at = now + counts * 10000000ULL / 9216;
}

void cc2420_board_timer_off(void)
{
    timer_at = NEVER;
    timer_due = false;
}

bool cc2420_board_timer_runs(void)
{
    return timer_at != NEVER || timer_due;
}

uint8_t cc2420_board_lock(void)
{
    uint8_t was = locked;
    locked = true;
    return was;
}

void cc2420_board_unlock(uint8_t was)
{
    locked = was != 0;
    interrupts();
}

/* --- the user of the radio --- */

static void print_bytes(const uint8_t *bytes, int count)
{
    for (int i = 0; i < count; i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

void radio_on_heard(const radio_heard_t *heard)
{
    const radio_message_t *message = &heard->message;
    note("heard");
    printf(" %lu %d %u %04x %04x %02x %02x ", (unsigned long)heard->time, heard->rssi, heard->lqi,
           message->dest, message->source, message->type, message->group);
    print_bytes(message->data, message->length);
    if (heard->error > 0) {
        note("unsure");
        printf(" %u\n", heard->error);
    }
    pass(US(heard_takes));
}

void radio_on_sent(radio_result_t result, uint32_t time)
{
    static const char *const names[] = {"SENT", "BUSY", "FAILED"};
    note("sent");
    printf(" %s %lu\n", names[result], (unsigned long)time);
}

uint32_t radio_stamp(uint32_t local)
{
    pass(US(stamp_takes));
    return local + 0x01020304;
}

static void on_end(void *log, const signal_t *signal)
{
    (void)log;
    if (signal->sender != ETHER_OUTSIDE && !signal->broken) {
        printf("%llu air ", (unsigned long long)(signal->data / 1000));
        print_bytes(signal->bytes, signal->count);
    }
}

/* --- commands --- */

static void run(uint64_t us)
{
    uint64_t end = now + US(us);
    while (now < end) {
        if (pending & EVENT_RADIO) {
            pending = 0;
            radio_service();
        } else {
            uint64_t next = timer_at < chip_at ? timer_at : chip_at;
            next = next < end ? next : end;
            pass(next > now ? next - now : 1);
        }
    }
}

static void command_frame(const char *line)
{
    unsigned long at;
    char hex[300];
    uint8_t bytes[130];
    if (sscanf(line, "%lu %299s %d %d", &at, hex, &forced_rssi, &forced_lqi) < 2)
        exit(2);
    int count = unhex(hex, bytes, sizeof bytes);
    ether_inject(ether, US(at) - US(160), US(at) + US(32) * (ns_t)count, KHZ, -40, US(at), US(32), bytes,
                 count);
}

static bool send(const radio_message_t *message, uint32_t when, uint8_t stamp_at, bool once)
{
#if CAUSEWAY_SCHEDULED
    if (once)
        return radio_send_at(message, when, stamp_at);
#endif
    (void)once;
    return radio_send(message, when, stamp_at);
}

static void command_send(const char *line, bool once)
{
    unsigned dest, source, type, group, stamp_at;
    long deadline;
    char hex[300] = "";
    if (sscanf(line, "%x %x %x %x %ld %u %299s", &dest, &source, &type, &group, &deadline, &stamp_at, hex) <
        6)
        exit(2);
    uint8_t data[140];
    radio_message_t message = {
        .dest = (uint16_t)dest, .source = (uint16_t)source, .type = (uint8_t)type, .group = (uint8_t)group};
    int count = unhex(hex, data, sizeof data);
    message.length = (uint8_t)count;
    memcpy(message.data, data, (size_t)(count <= CAUSEWAY_PAYLOAD_LIMIT ? count : CAUSEWAY_PAYLOAD_LIMIT));
    bool taken = send(&message, (uint32_t)((long)clock_now() + deadline), (uint8_t)stamp_at, once);
    note("send");
    printf(" %d\n", taken);
}

#if CAUSEWAY_SCHEDULED

/* Until the receiver is on, or for as long as it may take. */
static void command_wake(void)
{
    uint64_t end = now + RADIO_WAKE_TIME * 1000000000ULL / 32768;
    while (!radio_wake() && now < end)
        run(1);
    note("wake");
    printf(" %d power %d\n", radio_wake(), power_users);
}

static bool obey_schedule(const char *word)
{
    if (strcmp(word, "sleep") == 0) {
        radio_sleep();
        note("sleep");
        printf(" power %d\n", power_users);
    } else if (strcmp(word, "wake") == 0) {
        command_wake();
    } else if (strcmp(word, "is_busy") == 0) {
        note("is_busy");
        printf(" %d\n", radio_busy());
    } else {
        return false;
    }
    return true;
}

#else

static bool obey_schedule(const char *word)
{
    (void)word;
    return false;
}

#endif

static void command_counters(void)
{
    const radio_counters_t *counters = radio_counters();
    note("counters");
    printf(" %u %u %u %u %u\n", counters->heard, counters->crc, counters->overrun, counters->garbage,
           counters->restarts);
    note("untimed");
    printf(" %u\n", counters->untimed);
}

static void command_set(const char *line)
{
    char name[30];
    unsigned long value;
    if (sscanf(line, "%29s %lu", name, &value) != 2)
        exit(2);
    if (strcmp(name, "fifop_holds") == 0) {
        cc2420_hold_fifop(chip, value);
    } else if (strcmp(name, "dumb") == 0) {
        dumb = value;
    } else if (strcmp(name, "no_sfd") == 0) {
        no_sfd = value;
    } else if (strcmp(name, "blind") == 0) {
        blind = value;
    } else if (strcmp(name, "quiet") == 0) {
        quiet = value;
    } else if (strcmp(name, "stamp_takes") == 0) {
        stamp_takes = value;
    } else if (strcmp(name, "heard_takes") == 0) {
        heard_takes = value;
    } else if (strcmp(name, "locked") == 0) {
        locked = value;
        interrupts();
    } else {
        exit(2);
    }
}

int main(void)
{
    ether = ether_make(1, 1, (ether_log_t){.on_end = on_end});
    chip = cc2420_make(ether, 0, 0, (cc2420_host_t){.at = on_at, .on_pin = on_pin, .on_fault = on_fault});
    cc2420_supply(chip, true, 0);
    cc2420_csn(chip, true, 0);
    char line[600], word[30];
    int rest;
    while (fgets(line, sizeof line, stdin) != NULL) {
        rest = 0;
        if (sscanf(line, "%29s %n", word, &rest) != 1)
            continue;
        const char *arguments = line + rest;
        if (strcmp(word, "start") == 0) {
            bool started = radio_start((uint16_t)atoi(arguments));
            note("start");
            printf(" %d power %d\n", started, power_users);
        } else if (strcmp(word, "stop") == 0) {
            radio_stop();
            note("stop");
            printf(" power %d\n", power_users);
        } else if (strcmp(word, "run") == 0) {
            run((uint64_t)atoll(arguments));
        } else if (strcmp(word, "pass") == 0) {
            pass(US(atoll(arguments))); /* the loop is busy elsewhere: interrupts alone */
        } else if (strcmp(word, "frame") == 0) {
            command_frame(arguments);
        } else if (strcmp(word, "busy") == 0) {
            unsigned long from, to;
            assert(sscanf(arguments, "%lu %lu", &from, &to) == 2);
            ether_inject(ether, US(from), US(to), KHZ, -30, 0, 0, NULL, 0);
        } else if (strcmp(word, "send") == 0) {
            command_send(arguments, false);
        } else if (strcmp(word, "send_at") == 0) {
            command_send(arguments, true);
        } else if (strcmp(word, "sound") == 0) {
            note("sound");
            printf(" %d\n", radio_sound());
        } else if (strcmp(word, "spike") == 0) {
            on_sfd(true);
            interrupts();
            on_sfd(false);
        } else if (strcmp(word, "brownout") == 0) {
            cc2420_supply(chip, false, now);
            cc2420_supply(chip, true, now);
        } else if (strcmp(word, "counters") == 0) {
            command_counters();
        } else if (strcmp(word, "set") == 0) {
            command_set(arguments);
        } else if (!obey_schedule(word)) {
            exit(2);
        }
    }
    return 0;
}
