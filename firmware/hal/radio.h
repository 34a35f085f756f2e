/** The radio: active messages on the air, in the air format of the deployment's TinyOS version.
 *
 * One driver is linked: chips/cc2420 or chips/cc1000. The driver does channel access (listen before talk with
 * random backoff), drops frames with a bad CRC, and gives the time of the start-of-frame delimiter with each
 * frame. It hears everything (no address recognition, no acknowledgements): its user decides which node a
 * frame is for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"

#define RADIO_RSSI_UNKNOWN INT8_MIN
/* An `error` of unknown size: `time` is between that of the delimiter and now. */
#define RADIO_UNTIMED 0xFF

/** An active message on the air, the same for all radios. */
typedef struct {
    uint16_t dest;
    uint16_t source; /* TinyOS 2 only; 0 on 1.x, whose frames have none */
    uint8_t type;
    uint8_t group;
    uint8_t length; /* of data, at most CAUSEWAY_PAYLOAD_LIMIT */
    uint8_t data[CAUSEWAY_PAYLOAD_LIMIT];
} radio_message_t;

/** A message received. */
typedef struct {
    radio_message_t message;
    uint32_t time; /* local time of the start-of-frame delimiter */
    uint8_t error; /* cycles that `time` may be off because the delimiter was not seen; 0: it was */
    int8_t rssi;   /* dBm, or RADIO_RSSI_UNKNOWN */
    uint8_t lqi;   /* CC2420's link quality, 0 where there is none */
} radio_heard_t;

/** How a send ended. */
typedef enum {
    RADIO_SENT,   /* it went out; `time` is its start-of-frame delimiter's */
    RADIO_BUSY,   /* no clear channel before `deadline`: nothing was sent */
    RADIO_FAILED, /* the chip misbehaved and was restarted */
} radio_result_t;

/** Counters since start; each only grows, and wraps. */
typedef struct {
    uint16_t heard;    /* frames received with a good CRC */
    uint16_t crc;      /* frames dropped: bad CRC */
    uint16_t overrun;  /* frames dropped: chip's or driver's buffer full */
    uint16_t garbage;  /* frames dropped: an impossible length or header */
    uint16_t restarts; /* chip restarted after misbehaviour */
    uint16_t untimed;  /* of those heard, frames whose delimiter was not seen */
} radio_counters_t;

/** Start the chip on the deployment's channel and listen. False when the chip does not answer. `seed` feeds
 * the backoff. */
bool radio_start(uint16_t seed);

/** Stop the chip; a send in progress ends as RADIO_FAILED. */
void radio_stop(void);

/** Send a message, which the driver copies, when the channel is clear, but start no later than the local time
 * `deadline`. If a send is in progress or the message is too long, return false and do nothing. Otherwise
 * radio_on_sent() follows.
 *
 * Unless `stamp_at` is RADIO_NO_STAMP, the four data bytes at that place (the last four of the data) are
 * filled with radio_stamp(time of the start-of-frame delimiter) while the frame goes out, in the deployment's
 * byte order. */
#define RADIO_NO_STAMP 0xFF
bool radio_send(const radio_message_t *message, uint32_t deadline, uint8_t stamp_at);

/* From here to radio_busy(): only with a schedule; without one the radio never sleeps. */

/** Cycles from the first radio_wake() to a receiver that is on, at most, if it is called again on each
 * EVENT_RADIO. A start that fails and one that must calibrate (MICA2: hourly) take longer. */
#define RADIO_WAKE_TIME CAUSEWAY_RADIO_WAKE

/** Power the receiver down, with the least current that the chip knows; a send in progress ends as
 * RADIO_FAILED, and frames that were not handed over yet are lost: call radio_service() before. radio_wake()
 * writes the forgotten registers again; the calibration is kept. Asleep, the radio does not need the I/O
 * clock.
 */
void radio_sleep(void);

/** Begin to listen again; true once the receiver is on. While false, call it again on EVENT_RADIO. It never
 * waits. If the chip does not start, it is tried again by itself, once a second. */
bool radio_wake(void);

/** As radio_send(), but look at the channel once, at the local time `when` (at once if that has passed; at
 * most half a second ahead), and send then: the carrier follows within the radio's turn
 * (packet_formats/boards.py). If the channel is not clear, or the loop comes too late for `when`, the send
 * ends as RADIO_BUSY. */
bool radio_send_at(const radio_message_t *message, uint32_t when, uint8_t stamp_at);

/** Whether the radio hears or sends a frame just now: a carrier, or a frame that is coming in. */
bool radio_busy(void);

/** Whether no frame is coming in or waits for radio_service(): all that is heard from now on begins later.
 * From the loop. */
bool radio_quiet(void);

/** Do all pending work; call it on EVENT_RADIO, or at any time. It calls the three functions below. */
void radio_service(void);

/** Cycles of local time that a message of `length` data bytes takes on the air, with its preamble, rounded
 * up. */
uint16_t radio_airtime(uint8_t length);

const radio_counters_t *radio_counters(void);

/** Whether the driver's state is possible while the radio is on or sleeps, so that it goes on by itself. From
 * the loop. */
bool radio_sound(void);

/* What the user of the radio defines. */

/** A message came in; called from radio_service(), valid until it returns. */
void radio_on_heard(const radio_heard_t *heard);

/** A send ended; called from radio_service(). `time` is valid with RADIO_SENT. A new send may be started from
 * here. */
void radio_on_sent(radio_result_t result, uint32_t time);

/** Turn a local time into what a beacon carries. May be called from an interrupt: short, no side effects. */
uint32_t radio_stamp(uint32_t local);
