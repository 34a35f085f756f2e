/* The gateway hands every frame it hears to the host and sends the host's messages. It may be the time root.
 *
 * A heard record goes up before each frame; without room for both, neither goes. Status and health of the
 * gateway itself go up without one. Where several gateways serve the network, an idle record says how far
 * the gateway's time is when nothing went up for a while. A packet from the host that wants an
 * acknowledgement gets one if its CRC is good. A host's message goes on the air with our group and source;
 * one over the payload limit does not. A report or reboot command for the gateway itself is obeyed and not
 * sent; it reboots a second or two later. Its id is CAUSEWAY_MOTES or more, but not the broadcast id
 * 65535; CAUSEWAY_ROOT makes it the time root (net/node.h).
 */
#include <stdbool.h>
#include <string.h>

#include "causeway/am.h"
#include "causeway/crc.h"
#include "causeway/frame.h"
#include "causeway/records.h"
#include "hal/board.h"
#include "hal/clock.h"
#include "hal/radio.h"
#include "hal/uart.h"
#include "line.h"
#include "net/gateway_acks.h"
#include "net/beacons.h"
#include "net/identity.h"
#include "net/outbox.h"
#include "net/role.h"
#include "net/schedule.h"
#include "net/mic.h"
#include "net/timesync.h"

/* Cycles between status records; every sixth comes with a health message. */
#ifndef GATEWAY_STATUS_PERIOD
#define GATEWAY_STATUS_PERIOD (10 * CLOCK_SECOND)
#endif

/* Cycles without a frame after which an idle record goes up: 20 ms. */
#ifndef GATEWAY_IDLE_PERIOD
#define GATEWAY_IDLE_PERIOD (CLOCK_SECOND / 50)
#endif

#define DOWN_PATIENCE CLOCK_SECOND /* a host's message waits this long for a clear channel */
#define HEALTH_EVERY 6             /* status records */
#define BEHIND_BEACON 64           /* cycles after a window's opening by which its beacon has begun */
#define IDLE_MARGIN 32             /* cycles that the network's time may step back by at a beacon */
#define IDLE_AGAIN 32              /* cycles until an idle record is tried again */

static uint8_t record_number; /* of the next heard record */
static uint16_t lost;         /* pairs dropped since the last pair that went up */
static uint32_t status_at;
static uint32_t idle_at; /* with several gateways: the next idle record, unless something goes up before */
static uint8_t until_health;
static uint16_t reboot_at; /* in units(), 0: not at all */
static cw_deframer_t deframer;
static uint8_t uart_lost_before; /* its low byte */
static uint16_t line_breaks;     /* times that the UART lost bytes */

/* Counters of the status record that no other module has. */
static uint16_t forwarded, posed, up_full, line_refused, down_sent, down_full;

/* ---- Up: to the host ---- */

static uint8_t build(uint8_t type, const uint8_t *data, uint8_t length, uint8_t *packet)
{
    cw_am_t am = {CW_AM_BROADCAST, identity_id(), type, CAUSEWAY_GROUP, length, data};
    return cw_am_build(&am, packet);
}

/* With a key: the round of a network time, for the flags of its record. */
static uint8_t round_flags(uint32_t time)
{
    return MIC_BYTES ? (uint8_t)(timesync_round(time) << CW_BEACON_ROUND) : 0;
}

static uint8_t build_heard(const radio_heard_t *heard, uint32_t now, uint8_t *packet)
{
    uint8_t flags = (uint8_t)((timesync_in_sync(now) ? CW_HEARD_IN_SYNC : 0) |
                              (timesync_is_root() ? CW_HEARD_ROOT : 0) |
                              (CAUSEWAY_HAS_LQI ? CW_HEARD_LQI_KNOWN : 0) |
                              round_flags(timesync_network(heard->time)));
    cw_heard_t record = {
        .gateway = identity_id(),
        .epoch = timesync_epoch(),
        .sequence = record_number,
        .lost = lost,
        .flags = flags,
        .rssi = heard->rssi,
        .lqi = heard->lqi,
        .check = cw_crc16(heard->message.data, heard->message.length),
        .time = timesync_network(heard->time),
    };
    uint8_t data[CAUSEWAY_HEARD_BYTES];
    cw_heard_put(data, &record);
    return build(CAUSEWAY_AM_HEARD, data, CAUSEWAY_HEARD_BYTES, packet);
}

/* Whether the line has room for it. Inlined, its packets would be on the stack beside those of a report.
 */
static __attribute__((noinline)) bool hand_up(const radio_heard_t *heard, uint32_t now)
{
    uint8_t record[CW_PACKET_LIMIT], frame[CW_PACKET_LIMIT];
    const radio_message_t *message = &heard->message;
    cw_am_t am = {message->dest,  message->source, message->type,
                  message->group, message->length, message->data};
    if (line_put_pair(record, build_heard(heard, now, record), frame, cw_am_build(&am, frame))) {
        if (CAUSEWAY_GATEWAYS > 1)
            idle_at = now + GATEWAY_IDLE_PERIOD;
        record_number++;
        lost = 0;
        forwarded++;
        return true;
    }
    lost = lost < UINT16_MAX ? (uint16_t)(lost + 1) : UINT16_MAX;
    up_full++;
    return false;
}

/* Records that only a gateway makes, for its own host. On the air they are forged.
 */
static bool is_own_record(uint8_t type)
{
    return type == CAUSEWAY_AM_HEARD || type == CAUSEWAY_AM_STATUS || type == CAUSEWAY_AM_IDLE;
}

static void hand_up_and_answer(const radio_heard_t *heard, uint32_t now)
{
    if (hand_up(heard, now))
        gateway_acks_on_heard(&heard->message, now); /* else it is sent again: the line may have room then */
}

void radio_on_heard(const radio_heard_t *heard)
{
    const radio_message_t *message = &heard->message;
    uint32_t now = clock_now();
    if (is_own_record(message->type)) {
        posed++;
        return;
    }
    if (CAUSEWAY_SCHEDULED) {
        timesync_ask_now(now);
        schedule_on_frame(now);
    }
    if (bundle_is(message)) {
        bundle_open(heard, now, hand_up_and_answer);
        return;
    }
    hand_up_and_answer(heard, now);
    if (message->group != CAUSEWAY_GROUP)
        return;
    if (beacons_is(message))
        beacons_on_heard(heard, now);
    else if (beacons_is_proof(message))
        beacons_on_proof(message, now);
}

static bool send_status(uint32_t now)
{
    const radio_counters_t *radio = radio_counters();
    const cw_deframer_counters_t *line = &deframer.counters;
    cw_status_t status = {
        .gateway = identity_id(),
        .time = timesync_network(now),
        .epoch = timesync_epoch(),
        .boots = (uint8_t)identity_boots(),
        .heard = radio->heard,
        .forwarded = forwarded,
        .radio_crc = radio->crc,
        .radio_overrun = radio->overrun,
        .foreign = (uint16_t)(radio->garbage + posed),
        .up_full = up_full,
        .line_crc = (uint16_t)(line->crc + line->escape + line->overlong + line_breaks),
        .line_refused = line_refused,
        .down_sent = down_sent,
        .down_full = down_full,
    };
    uint8_t data[CAUSEWAY_STATUS_BYTES], packet[CW_PACKET_LIMIT];
    cw_status_put(data, &status);
    return line_put(packet, build(CAUSEWAY_AM_STATUS, data, CAUSEWAY_STATUS_BYTES, packet));
}

static bool send_health(uint32_t now)
{
    cw_health_t health = {
        .source = identity_id(),
        .time = timesync_network(now),
        .epoch = timesync_epoch(),
        .flags = (uint8_t)((timesync_in_sync(now) ? CW_HEALTH_IN_SYNC : 0) |
                           (timesync_two_roots() ? CW_HEALTH_TWO_ROOTS : 0) |
                           board_start_cause() << CW_HEALTH_START),
        .boots = identity_boots(),
        .layout = CAUSEWAY_LAYOUT_HASH,
        .hops = timesync_hops(),
    };
    uint8_t data[CAUSEWAY_HEALTH_BYTES], packet[CW_PACKET_LIMIT];
    cw_health_put(data, &health);
    if (CAUSEWAY_SCHEDULED)
        data[CAUSEWAY_HEALTH_TAIL_AT] = 0; /* it never sleeps */
    if (MIC_BYTES)
        mic_write_health(data);
    return line_put(packet, build(CAUSEWAY_AM_HEALTH, data, CAUSEWAY_HEALTH_BYTES, packet));
}

/* Without room it is tried again in the next step. Not inlined either, because of its packets. */
static __attribute__((noinline)) void report(uint32_t now)
{
    if (clock_before(now, status_at) || !send_status(now))
        return;
    status_at = now + GATEWAY_STATUS_PERIOD;
    if (until_health > 0)
        until_health--;
    else if (send_health(now))
        until_health = HEALTH_EVERY - 1;
}

/* The clock is read before the radio is looked at: a frame that began earlier is seen. */
static bool send_idle(uint32_t now)
{
    if (!line_empty() || !radio_quiet() || !timesync_in_sync(now))
        return false;
    uint32_t time = timesync_network(now) - IDLE_MARGIN;
    cw_idle_t idle = {
        .gateway = identity_id(),
        .epoch = timesync_epoch(),
        .flags = (uint8_t)(CW_HEARD_IN_SYNC | round_flags(time)),
        .time = time,
    };
    uint8_t data[CAUSEWAY_IDLE_BYTES], packet[CW_PACKET_LIMIT];
    cw_idle_put(data, &idle);
    return line_put(packet, build(CAUSEWAY_AM_IDLE, data, CAUSEWAY_IDLE_BYTES, packet));
}

static __attribute__((noinline)) void report_idle(uint32_t now)
{
    if (!clock_before(now, idle_at))
        idle_at = now + (send_idle(now) ? GATEWAY_IDLE_PERIOD : IDLE_AGAIN);
}

/* ---- Down: from the host ---- */

static void send_down(const cw_am_t *am, uint32_t now)
{
    outbox_frame_t *frame = outbox_place();
    if (!frame) {
        down_full++;
        return;
    }
    frame->kind = OUTBOX_PLAIN;
    frame->not_before = CAUSEWAY_SCHEDULED ? schedule_opening(now) + BEHIND_BEACON
                                           : now; /* motes listen then */
    frame->deadline = frame->not_before + DOWN_PATIENCE;
    frame->message.dest = am->dest;
    frame->message.source = identity_id();
    frame->message.type = am->type;
    frame->message.group = CAUSEWAY_GROUP;
    frame->message.length = am->length;
    memcpy(frame->message.data, am->data, am->length);
    outbox_put(frame);
}

/* A time in units of 256 cycles, never 0. */
static uint16_t units(uint32_t time)
{
    return (uint16_t)(time >> 8) | 1;
}

/* Not at once: the acknowledgement goes up first, or the host sends the command again. */
static void reboot(uint32_t now)
{
    if (reboot_at == 0)
        reboot_at = units(now + CLOCK_SECOND);
}

/* Obey a command for the gateway; return whether it is for the gateway only. A report of all includes the
 * gateway. */
static bool obey(const cw_am_t *am, uint32_t now)
{
    cw_downlink_t command;
    if (am->type != CAUSEWAY_AM_DOWNLINK || !cw_downlink_get(am->data, MIC_REST(am->length), &command))
        return false;
    bool ours = command.target == identity_id();
    if (command.command == CW_COMMAND_REPORT && (ours || command.target == CW_TARGET_ALL)) {
        until_health = 0;
        status_at = now;
    } else if (command.command == CW_COMMAND_REBOOT && ours) {
        reboot(now);
    }
    return ours;
}

static void take_packet(uint8_t length, uint32_t now)
{
    cw_packet_t packet;
    cw_packet_kind_t kind = cw_am_parse(deframer.packet, length, &packet);
    if (packet.wants_ack)
        line_put_ack(packet.token); /* it is lost when several wait: the host then sends again */
    if (kind == CW_PACKET_IS_DATA || kind == CW_PACKET_IS_DATA_ACK) {
        if (!obey(&packet.am, now))
            send_down(&packet.am, now);
    } else if (kind != CW_PACKET_IS_ACK) {
        line_refused++;
    }
}

static void read_line(uint32_t now)
{
    uint8_t uart_lost_now = (uint8_t)uart_lost();
    if (uart_lost_now != uart_lost_before) {
        uart_lost_before = uart_lost_now;
        line_breaks++;
        cw_deframer_resync(&deframer);
    }
    int16_t byte;
    while ((byte = uart_read()) >= 0) {
        uint8_t length = cw_deframer_put(&deframer, (uint8_t)byte);
        if (length > 0)
            take_packet(length, now);
    }
}

/* ---- The loop ---- */

/* A report that is due and finds no room waits for the line. */
uint32_t role_next(uint32_t now)
{
    uint32_t next = clock_before(now, status_at) ? status_at : now + CLOCK_SECOND;
    return CAUSEWAY_GATEWAYS > 1 && clock_before(idle_at, next) ? idle_at : next;
}

bool role_sound(uint32_t now)
{
    if (CAUSEWAY_GATEWAYS > 1 && clock_before(now + GATEWAY_IDLE_PERIOD, idle_at))
        return false;
    return line_sound() && !clock_before(now + GATEWAY_STATUS_PERIOD + CLOCK_SECOND, status_at) &&
           until_health < HEALTH_EVERY &&
           (reboot_at == 0 || (int16_t)(reboot_at - units(now + CLOCK_SECOND)) <= 0);
}

uint8_t role_leds(void)
{
    return 0;
}

const bool role_sleeps = false;

bool role_accepts(uint16_t id)
{
    return id >= CAUSEWAY_MOTES && id != CW_TARGET_ALL;
}

void role_start(uint32_t now)
{
    uart_start();
    status_at = now + CLOCK_SECOND;
    if (CAUSEWAY_GATEWAYS > 1)
        idle_at = now;
}

void role_step(uint8_t events)
{
    (void)events;
    uint32_t now = clock_now();
    read_line(now);
    report(now);
    if (CAUSEWAY_GATEWAYS > 1)
        report_idle(now);
    line_service();
    if (reboot_at != 0 && (int16_t)(units(now) - reboot_at) >= 0)
        board_reboot();
}

/* ---- What the layers below ask for ---- */

void role_on_epoch(uint8_t epoch)
{
    (void)epoch;
}

bool outbox_before_send(outbox_frame_t *frame, uint32_t now)
{
    if (CAUSEWAY_SCHEDULED && MIC_BYTES && frame->message.type == CAUSEWAY_AM_TAKEN)
        mic_write_taken(frame->message.data, timesync_network(now));
    return true;
}

void outbox_on_done(const outbox_frame_t *frame, outbox_result_t result)
{
    outbox_frame_t *place = outbox_place();
    if (CAUSEWAY_SCHEDULED && frame->message.type == CAUSEWAY_AM_TAKEN && result != OUTBOX_SENT && place &&
        clock_before(clock_now(), frame->deadline)) {
        *place = *frame; /* the channel was not clear at our turn */
        outbox_put(place);
    }
    if (frame->message.type == GATEWAY_ACKS_TYPE)
        return;
    if (result == OUTBOX_SENT)
        down_sent++;
    else
        down_full++;
}
