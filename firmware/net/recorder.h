/** The flight recorder: the last events of this mote, in RAM under the symbol `causeway_recorder`, for a
 * debugger or an emulator to read.
 *
 * The layout is the same on every machine: integers of the processor's own byte order, no gaps. Entry number
 * e is at entries[e % RECORDER_ENTRIES]; the recorder holds entries next - RECORDER_ENTRIES .. next - 1.
 * `next` is written last.
 */
#pragma once

#include <stdint.h>

#ifndef RECORDER_ENTRIES
#define RECORDER_ENTRIES 32 /* a power of two */
#endif

#define RECORDER_FORMAT 1

typedef enum {
    RECORDER_BOOT = 1, /* peer: own id; sequence: boot count, its low 8 bits */
    RECORDER_SEND,     /* peer: own id; an own message was stamped and handed to the radio */
    RECORDER_RECEIVE,  /* peer: its source; a message was merged */
    RECORDER_UNMERGED, /* peer: its source; a message was received, but its sender is out of sync */
    RECORDER_RELAY,    /* peer: its source; another mote's message was forwarded */
    RECORDER_LATE,  /* peer: its source, own id too; a message was dropped because it could not make delta */
    RECORDER_EPOCH, /* peer: epoch; stamps were cleared */
} recorder_kind_t;

typedef struct {
    uint16_t number; /* the event's, modulo 65536 */
    uint16_t peer;
    uint16_t tick; /* of the event's stamp, modulo 65536 */
    uint8_t kind;
    uint8_t sequence;
} recorder_entry_t;

typedef struct {
    uint8_t format; /* RECORDER_FORMAT */
    uint8_t size;   /* RECORDER_ENTRIES */
    uint16_t next;  /* number of the next event, modulo 65536 */
    recorder_entry_t entries[RECORDER_ENTRIES];
} recorder_t;

extern volatile recorder_t causeway_recorder;

/** Fill in `format` and `size`. Until then `format` is 0. */
void recorder_start(void);

/** Note an event; about fifty cycles. From the loop. */
void recorder_note(recorder_kind_t kind, uint16_t peer, uint8_t sequence, uint16_t tick);
