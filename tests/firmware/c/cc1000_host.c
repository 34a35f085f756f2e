/* An imagined MICA2 around the CC1000 driver: the chip's register interface as its data sheet has it, an SPI
 * slave, a clock that goes on with each pin change, wait and byte, and what the user of radio.h defines.
 * tests/firmware/cc1000/radio.py calls the functions named host_. */
#include <stdlib.h>
#include <string.h>

#include "chips/cc1000/cc1000_board.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/power.h"
#include "hal/radio.h"

enum { EDGES = 400000, WRITES = 16000, HEARD = 64, SENT = 64, PIN_NS = 271, BYTE_NS = 416667 };

typedef struct {
    uint64_t ns;
    char wire;
    uint8_t high;
} edge_t;

typedef struct {
    uint64_t ns;
    uint8_t write, address, value;
} access_t;

typedef struct {
    uint32_t result, time;
} sent_t;

/* What the test sets and sees. */
uint64_t host_ns;
uint32_t host_edge_count, host_access_count, host_heard_count, host_sent_count;
edge_t host_edges[EDGES];
access_t host_accesses[WRITES];
radio_heard_t host_heard[HEARD];
sent_t host_sent[SENT];
uint8_t host_registers[128];
uint8_t host_present = 1, host_locks = 1;
uint32_t host_calibration_us = 26000;
uint16_t host_rssi = 400;
uint8_t host_answers_rssi = 1;
uint8_t host_spi_on, host_drives, host_watched, host_powered, host_events, host_locked;
uint8_t host_resend;
uint32_t host_rssi_count;
uint16_t host_after_us;

static struct {
    bool pale, pclk, pdata, input, out;
    uint8_t bits, address, data, shown;
    bool writing;
    uint64_t calibrated;
    bool calibrating;
} chip = {.pale = true, .pclk = true, .pdata = true};

static bool rssi_wanted, in_byte;
static uint64_t rssi_at;
static uint8_t spdr;

static void check(bool fine)
{
    if (!fine)
        abort();
}

static void note(bool write, uint8_t address, uint8_t value)
{
    check(host_access_count < WRITES);
    host_accesses[host_access_count++] = (access_t){host_ns, write, address, value};
}

static uint8_t chip_read(uint8_t address)
{
    uint8_t value = host_registers[address];

    if (address == 0x0E && chip.calibrating && host_ns >= chip.calibrated)
        value = (uint8_t)((value & 0x7F) | 0x08);
    if (address == 0x0D)
        value = (uint8_t)((value & 0xFC) | (host_locks ? 3 : 0));
    return value;
}

static void chip_write(uint8_t address, uint8_t value)
{
    host_registers[address] = value;
    if (address == 0x0E) {
        chip.calibrating = (value & 0x80) != 0 && host_calibration_us != 0;
        chip.calibrated = host_ns + (uint64_t)host_calibration_us * 1000;
    }
}

/* The chip looks at PCLK's falling edge: eight bits while PALE is low, eight while it is high. */
static void chip_clock(void)
{
    chip.bits++;
    if (!chip.pale) {
        check(!chip.input && chip.bits <= 8);
        if (chip.bits < 8) {
            chip.address = (uint8_t)(chip.address << 1 | chip.pdata);
        } else {
            chip.writing = chip.pdata;
            chip.address &= 0x7F;
            chip.shown = chip_read(chip.address);
        }
        return;
    }
    check(chip.bits <= 8 && chip.input == !chip.writing);
    if (chip.writing) {
        chip.data = (uint8_t)(chip.data << 1 | chip.pdata);
        if (chip.bits == 8) {
            chip_write(chip.address, chip.data);
            note(true, chip.address, chip.data);
        }
    } else {
        chip.out = (chip.shown & 0x80 >> (chip.bits - 1)) != 0;
        if (chip.bits == 8)
            note(false, chip.address, chip.shown);
    }
}

void mock_edge(char wire, bool high)
{
    bool *level = wire == 'L'   ? &chip.pale
                  : wire == 'C' ? &chip.pclk
                  : wire == 'D' ? &chip.pdata
                                : &chip.input;

    host_ns += PIN_NS;
    if (*level == high)
        return;
    *level = high;
    check(host_edge_count < EDGES);
    host_edges[host_edge_count++] = (edge_t){host_ns, wire, high};
    if (wire == 'L') {
        check(chip.bits == 8 || chip.bits == 0);
        chip.bits = 0;
    } else if (wire == 'C' && !high) {
        chip_clock();
    }
}

bool mock_pdata(void)
{
    return host_present ? chip.out : true;
}

void mock_lock(bool locked)
{
    check(host_locked != locked);
    host_locked = locked;
}

void cc1000_board_start(void)
{
    chip.bits = 0;
}

void cc1000_board_wait(uint16_t us)
{
    check(!host_locked);
    host_ns += (uint64_t)us * 1000;
}

void cc1000_board_spi(bool on)
{
    host_spi_on = on;
}

void cc1000_board_drive(bool on)
{
    host_drives = on;
}

bool cc1000_board_drives(void)
{
    return host_drives;
}

void cc1000_board_rssi(void)
{
    rssi_wanted = true;
    rssi_at = host_ns + 217000;
    host_rssi_count++;
}

void cc1000_board_watch(bool on)
{
    host_watched = on;
    host_after_us = 0;
}

void cc1000_board_after(uint16_t us)
{
    host_watched = 0;
    host_after_us = us;
}

static uint32_t cycles(void)
{
    return (uint32_t)(host_ns * 32768 / 1000000000);
}

static uint16_t counts(void)
{
    return (uint16_t)(host_ns * 9216 / 10000000);
}

/* Who sleeps also waits for its time: then looking at the clock takes a little. */
uint32_t clock_now(void)
{
#if CAUSEWAY_SCHEDULED
    host_ns += in_byte ? 0 : 2000;
    if (rssi_wanted && host_answers_rssi && !host_locked && !in_byte && host_ns >= rssi_at) {
        rssi_wanted = false;
        cc1000_on_rssi(host_rssi);
    }
#endif
    return cycles();
}

uint32_t clock_of_capture(uint16_t capture)
{
    uint16_t age = (uint16_t)(counts() - capture);

    return (uint32_t)((host_ns - (uint64_t)age * 10000000 / 9216) * 32768 / 1000000000);
}

void events_post(uint8_t events)
{
    host_events |= events;
}

void power_need(uint8_t user)
{
    host_powered |= user;
}

void power_release(uint8_t user)
{
    host_powered &= (uint8_t)~user;
}

uint32_t radio_stamp(uint32_t local)
{
    return local + 0x12345678;
}

static const radio_message_t again = {.dest = 0xFFFF, .type = 9, .group = 1, .length = 1, .data = {7}};

void radio_on_heard(const radio_heard_t *heard)
{
    check(host_heard_count < HEARD);
    host_heard[host_heard_count++] = *heard;
}

void radio_on_sent(radio_result_t result, uint32_t time)
{
    check(host_sent_count < SENT);
    host_sent[host_sent_count++] = (sent_t){(uint32_t)result, time};
    if (host_resend) {
        host_resend = 0;
        check(radio_send(&again, time + 32768, RADIO_NO_STAMP));
    }
}

/* A byte's time passes: `in` comes; what went out meanwhile is the value. The ADC answers in the middle of a
 * byte. */
int host_byte(uint8_t in)
{
    int out = spdr;

    in_byte = true;
    host_ns += BYTE_NS / 2;
    if (rssi_wanted && host_answers_rssi) {
        rssi_wanted = false;
        cc1000_on_rssi(host_rssi);
    }
    host_ns += BYTE_NS - BYTE_NS / 2;
    if (host_spi_on) {
        uint16_t count = counts();

        spdr = cc1000_outgoing;
        host_ns += 5000; /* of the handler, until the driver asks for the time */
        cc1000_on_byte(in, count);
        host_ns -= 5000;
    }
    in_byte = false;
    return out;
}

/* What the loop does on EVENT_RADIO. */
void host_service(void)
{
    if (host_events & EVENT_RADIO) {
        host_events = 0;
        radio_service();
    }
}

void host_watch(void)
{
    host_ns += 100000000;
    if (host_watched)
        cc1000_on_watch();
}

#if CAUSEWAY_SCHEDULED

/* Until the next step of waking. */
void host_after(void)
{
    uint16_t us = host_after_us;

    host_ns += us * 1000ULL;
    host_after_us = 0;
    if (us != 0)
        cc1000_on_watch();
}

int host_send_at(const uint8_t *data, uint8_t length, uint32_t when)
{
    radio_message_t message = {.dest = 0xFFFF, .type = 6, .group = 0x7D, .length = length};

    memcpy(message.data, data, length);
    return radio_send_at(&message, when, RADIO_NO_STAMP);
}

#endif

int host_send(uint16_t dest, uint16_t source, uint8_t type, uint8_t group, const uint8_t *data,
              uint8_t length, uint32_t deadline, uint8_t stamp_at)
{
    radio_message_t message = {
        .dest = dest, .source = source, .type = type, .group = group, .length = length};

    memcpy(message.data, data, length <= sizeof message.data ? length : sizeof message.data);
    return radio_send(&message, deadline, stamp_at);
}
