/* A board for the host: one node as a shared library. Time, the air, the line and EEPROM are driven from
 * outside (net_world.py). */
#include <setjmp.h>
#include <string.h>

#include "causeway/bytes.h"
#include "hal/board.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/power.h"
#include "hal/radio.h"
#include "hal/sensor.h"
#include "hal/uart.h"
#include "net/messaging.h"
#include "net/traffic.h"
#include "net/network_time.h"
#include "net/node.h"
#include "net/recorder.h"
#include "net/timesync.h"

#if HOST_GATEWAY
/* A gateway has no messaging, but the library has all of net/. */
void commands_on_command(uint8_t command, uint32_t argument)
{
    (void)command;
    (void)argument;
}
void messaging_on_data(const radio_message_t *message, uint32_t tick)
{
    (void)message;
    (void)tick;
}
void messaging_on_sent(bool sent, uint8_t sequence)
{
    (void)sent;
    (void)sequence;
}
#endif

enum { WRITTEN = 64, HEARD_ROOM = 8, LINE_BYTES = 4096 };

static uint32_t now;
static uint8_t pending;
static jmp_buf reset;

uint8_t host_eeprom[4096];
uint16_t host_eeprom_writes; /* so many, and where what was written: the last ones */
uint16_t host_eeprom_written[WRITTEN][2];
uint8_t host_leds;
uint32_t host_alarm;
uint32_t host_pats;
uint32_t host_waits;
uint16_t host_sensors[SENSORS]; /* their readings, while they are powered and warm */
uint32_t host_supplies;         /* how often one was switched on */
uint8_t host_powered;           /* the sensor that is on */
uint16_t host_supply = 417;     /* 3.0 V */
static uint16_t converted;
static bool converting;

/* ---- Clock and events ---- */

void clock_start(void) {}
uint32_t clock_now(void)
{
    return now;
}
bool clock_sound(void)
{
    return true;
}
bool power_sound(void)
{
    return true;
}
void clock_alarm(uint32_t when)
{
    host_alarm = when;
}
void events_post(uint8_t events)
{
    pending |= events;
}

void events_wait(void)
{
    now = host_alarm;
    host_waits++;
}

uint8_t events_take(void)
{
    uint8_t taken = pending;
    pending = 0;
    converting = converting && !(taken & EVENT_ADC);
    return taken;
}

/* ---- Board ---- */

uint8_t host_cause = START_POWER_ON;

void board_start(void) {}
uint8_t board_start_cause(void)
{
    return host_cause;
}
void leds_set(uint8_t leds)
{
    host_leds = leds;
}
void leds_toggle(uint8_t leds)
{
    host_leds ^= leds;
}
uint8_t eeprom_get(uint16_t address)
{
    return host_eeprom[address];
}
void eeprom_put(uint16_t address, uint8_t value)
{
    if (host_eeprom[address] != value) {
        host_eeprom_written[host_eeprom_writes % WRITTEN][0] = address;
        host_eeprom_written[host_eeprom_writes++ % WRITTEN][1] = value;
    }
    host_eeprom[address] = value;
}
void watchdog_start(void) {}
void watchdog_pat(void)
{
    host_pats++;
}
uint16_t adc_value(void)
{
    return converted;
}
void board_reset(void)
{
    longjmp(reset, 1);
}
void board_reboot(void)
{
    longjmp(reset, 1);
}
void board_refuse(void)
{
    longjmp(reset, 2);
}

static bool convert(uint16_t value)
{
    if (converting)
        return false;
    converting = true;
    converted = value;
    events_post(EVENT_ADC);
    return true;
}

bool adc_start_supply(void)
{
    return convert(host_supply);
}

#if CW_SENSOR_BOARD

enum { WARM_UP = 328, COLD = 5 };
static uint32_t powered_at;

/* The two axes share a supply; the magnetometer is missing. */
static uint8_t supply_of(uint8_t sensor)
{
    return sensor == SENSOR_ACCEL_Y ? SENSOR_ACCEL_X : sensor;
}

uint16_t sensor_on(uint8_t sensor)
{
    bool was_on = supply_of(host_powered) == supply_of(sensor);
    host_powered = sensor;
    if (sensor == SENSOR_MAG_X || sensor == SENSOR_MAG_Y) {
        host_powered = SENSOR_NONE;
        return SENSOR_MISSING;
    }
    if (was_on)
        return 0;
    powered_at = now;
    host_supplies++;
    return WARM_UP;
}

void sensor_off(void)
{
    host_powered = SENSOR_NONE;
}

uint8_t sensor_channel(uint8_t sensor)
{
    return sensor;
}

static uint16_t analog(uint8_t channel)
{
    return channel == host_powered && now - powered_at >= WARM_UP ? host_sensors[channel] : COLD;
}

#else

static uint16_t analog(uint8_t channel)
{
    return channel;
}

#endif

bool adc_start(uint8_t channel)
{
    return convert(analog(channel));
}

/* ---- Radio ---- */

radio_message_t host_sending;
uint32_t host_deadline;
uint8_t host_stamp_at;
uint8_t host_wants;    /* 1: a message is to be sent */
uint32_t host_refused; /* sends while one was in progress */
radio_counters_t host_radio;
uint8_t host_unsure; /* of all that is heard: radio_heard_t's error */

static radio_heard_t inbox[HEARD_ROOM];
static uint8_t inbox_used;
static bool ended;
static radio_result_t end_result;
static uint32_t end_time;
static bool sending;

bool host_radio_on;

bool radio_start(uint16_t seed)
{
    (void)seed;
    host_radio_on = true;
    return true;
}

bool radio_send(const radio_message_t *message, uint32_t deadline, uint8_t stamp_at)
{
    if (sending || message->length > CAUSEWAY_PAYLOAD_LIMIT) {
        host_refused++;
        return false;
    }
    host_sending = *message;
    host_deadline = deadline;
    host_stamp_at = stamp_at;
    sending = true;
    host_wants = 1;
    return true;
}

#if CAUSEWAY_SCHEDULED

uint8_t host_at; /* 1: it is to be sent at its deadline, or not at all */

void radio_sleep(void)
{
    host_radio_on = false;
}

bool radio_wake(void)
{
    host_radio_on = true;
    return true;
}

uint8_t host_carriers; /* frames that are coming in */

bool radio_busy(void)
{
    return host_carriers > 0;
}

bool radio_send_at(const radio_message_t *message, uint32_t when, uint8_t stamp_at)
{
    host_at = radio_send(message, when, stamp_at);
    return host_at;
}

#endif

uint16_t radio_airtime(uint8_t length)
{
#if CAUSEWAY_RADIO_CC1000
    return (uint16_t)((uint32_t)(22 + length) * 14 + 1); /* 0.417 ms a byte: 13.65 cycles */
#else
    return (uint16_t)(length + 18); /* 32 us a byte: 1.05 cycles */
#endif
}

#if CAUSEWAY_GATEWAYS > 1
bool radio_quiet(void)
{
    return inbox_used == 0;
}
#endif

const radio_counters_t *radio_counters(void)
{
    return &host_radio;
}
bool radio_sound(void)
{
    return true;
}

void radio_service(void)
{
    if (ended) {
        ended = false;
        sending = false;
        radio_on_sent(end_result, end_time);
    }
    for (uint8_t i = 0; i < inbox_used; i++)
        radio_on_heard(&inbox[i]);
    inbox_used = 0;
}

/** The frame's start-of-frame delimiter goes out at local time `time`. */
void host_sfd(uint32_t time)
{
    if (host_stamp_at != RADIO_NO_STAMP)
        cw_put32(host_sending.data + host_stamp_at, radio_stamp(time));
}

void host_sent(int result, uint32_t time)
{
    ended = true;
    end_result = (radio_result_t)result;
    end_time = time;
    events_post(EVENT_RADIO);
}

void host_hear(const radio_message_t *message, uint32_t time, int rssi)
{
    if (inbox_used == HEARD_ROOM) {
        host_radio.overrun++;
        return;
    }
    inbox[inbox_used++] = (radio_heard_t){*message, time, host_unsure, (int8_t)rssi, 100};
    host_radio.heard++;
    events_post(EVENT_RADIO);
}

/* ---- Line ---- */

uint8_t host_up[LINE_BYTES];
uint32_t host_up_used;
uint32_t host_up_room = LINE_BYTES; /* what the UART takes until the other side empties it */
static uint8_t down[LINE_BYTES];
static uint32_t down_at, down_used;
uint16_t host_uart_lost;

void uart_start(void) {}
uint16_t uart_lost(void)
{
    return host_uart_lost;
}
int16_t uart_read(void)
{
    return down_at < down_used ? down[down_at++] : -1;
}

bool uart_write(uint8_t byte)
{
    if (host_up_used >= host_up_room)
        return false;
    host_up[host_up_used++] = byte;
    return true;
}

void host_line(const uint8_t *bytes, uint32_t length)
{
    memcpy(down, bytes, length);
    down_at = 0;
    down_used = length;
    events_post(EVENT_UART_RX);
}

/* ---- Running, and looking on ---- */

uint32_t host_jumps;     /* times that the network's clock was set */
uint32_t host_backwards; /* times that it was seen to run backwards between two settings */
uint32_t host_stride;    /* cycles between two looks, 0: do not look */
static uint32_t looked, shown;
static bool looking;

void __real_network_time_set(uint32_t local, uint32_t network);
void __wrap_network_time_set(uint32_t local, uint32_t network)
{
    host_jumps++;
    looking = false;
    __real_network_time_set(local, network);
}

static void look(void)
{
    if (host_stride == 0)
        return;
    if (!looking) {
        looking = true;
        looked = now;
        shown = timesync_network(now);
    }
    while ((int32_t)(now - looked) > 0) {
        uint32_t step = now - looked < host_stride ? now - looked : host_stride;
        looked += step;
        uint32_t next = timesync_network(looked);
        host_backwards += (int32_t)(next - shown) < 0;
        shown = next;
    }
}

/** Let the node run at local time `time`; 1 when it was reset, 2 when it refused to start. `start` for its
 * first time. */
int host_step(uint32_t time, int start)
{
    now = time;
    look();
    int end = setjmp(reset);
    if (end != 0)
        return end;
    if (start)
        node_start();
    if (!clock_before(now, host_alarm))
        events_post(EVENT_ALARM);
    do {
        node_step();
    } while (pending);
    look();
    return 0;
}

const traffic_t *host_messages(void)
{
    return &traffic;
}
const timesync_counters_t *host_sync(void)
{
    return timesync_counters();
}
