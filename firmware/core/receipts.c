#include "causeway/receipts.h"

#include <string.h>

#include "causeway/bytes.h"
#include "causeway/dedup.h"

void cw_receipts_start(cw_receipts_t *receipts)
{
    memset(receipts, 0, sizeof(*receipts));
}

#if CAUSEWAY_RECEIPTS

/* A row's state: the boot count in the low three bits, and */
#define BOOT_MASK 0x07U
#define UNSENT 0x08U /* this receipt was in no message yet */
#define FRESH 0x10U  /* received since the last send */

_Static_assert(CW_RECEIPTS_ROOM >= 1 && CW_RECEIPTS_ROOM <= 255, "rows are counted in a byte");

static bool is_old(const cw_receipt_t *row, uint8_t boot, uint8_t sequence)
{
    return (row->state & BOOT_MASK) == boot && (uint8_t)(row->sequence - sequence) < CW_OLD_SPAN;
}

static void remove_row(cw_receipts_t *receipts, uint8_t at)
{
    receipts->used--;
    memmove(receipts->rows + at, receipts->rows + at + 1,
            sizeof(cw_receipt_t) * (size_t)(receipts->used - at));
}

/* After a fault in memory. */
static void check_rows(cw_receipts_t *receipts)
{
    if (receipts->used > CW_RECEIPTS_ROOM)
        cw_receipts_start(receipts);
}

/* Forget the most recently sent receipt; false if all are still to be sent. */
static bool make_room(cw_receipts_t *receipts)
{
    for (uint8_t at = receipts->used; at-- > 0;) {
        if (!(receipts->rows[at].state & UNSENT)) {
            remove_row(receipts, at);
            return true;
        }
    }
    return false;
}

void cw_receipts_add(cw_receipts_t *receipts, uint16_t source, uint8_t boot, uint8_t sequence)
{
    uint8_t at = 0;
    check_rows(receipts);
    boot &= BOOT_MASK;
    while (at < receipts->used && receipts->rows[at].source != source)
        at++;
    if (at == receipts->used) {
        if (at == CW_RECEIPTS_ROOM && !make_room(receipts)) {
            receipts->overflow = true;
            return;
        }
        at = receipts->used++;
    } else if (is_old(&receipts->rows[at], boot, sequence)) {
        return;
    }
    cw_receipt_t *row = &receipts->rows[at];
#if CAUSEWAY_SOURCE_BYTES == 1
    row->source = (uint8_t)source;
#else
    row->source = source;
#endif
    row->sequence = sequence;
    row->state = (uint8_t)(boot | UNSENT | FRESH);
}

/* Which of the first `among` rows to send next: the first unsent one, else the first. */
static uint8_t choose(const cw_receipts_t *receipts, uint8_t among)
{
    for (uint8_t at = 0; at < among; at++)
        if (receipts->rows[at].state & UNSENT)
            return at;
    return 0;
}

static void put_slot(uint8_t *slot, uint16_t source, uint8_t sequence)
{
    cw_put_source(slot, source);
    slot[CAUSEWAY_SOURCE_BYTES] = sequence;
}

/* Send one of the first `among` rows; it becomes the last, the most recently sent. */
static void send_receipt(cw_receipts_t *receipts, uint8_t among, uint8_t *slot)
{
    uint8_t at = choose(receipts, among);
    cw_receipt_t row = receipts->rows[at];
    put_slot(slot, row.source, row.sequence);
    row.state &= BOOT_MASK;
    remove_row(receipts, at);
    receipts->rows[receipts->used++] = row;
}

/* Whether every receipt since the last send was sent; from here on they count as old. */
static bool close_interval(cw_receipts_t *receipts)
{
    bool complete = !receipts->overflow;
    receipts->overflow = false;
    for (uint8_t at = 0; at < receipts->used; at++) {
        if (receipts->rows[at].state & FRESH)
            complete = false;
        receipts->rows[at].state &= (uint8_t)~FRESH;
    }
    return complete;
}

bool cw_receipts_put(cw_receipts_t *receipts, uint16_t own, uint8_t sequence, uint8_t *slots)
{
    check_rows(receipts);
    uint8_t among = receipts->used;

    for (uint8_t slot = 0; slot < CAUSEWAY_RECEIPTS; slot++, slots += CAUSEWAY_RECEIPT_BYTES)
        if (among)
            send_receipt(receipts, among--, slots);
        else
            put_slot(slots, own, sequence);
    return close_interval(receipts);
}

#else

void cw_receipts_add(cw_receipts_t *receipts, uint16_t source, uint8_t boot, uint8_t sequence)
{
    (void)receipts;
    (void)source;
    (void)boot;
    (void)sequence;
}

bool cw_receipts_put(cw_receipts_t *receipts, uint16_t own, uint8_t sequence, uint8_t *slots)
{
    (void)receipts;
    (void)own;
    (void)sequence;
    (void)slots;
    return false;
}

#endif
