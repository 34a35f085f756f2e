#include "recorder.h"

_Static_assert((RECORDER_ENTRIES & (RECORDER_ENTRIES - 1)) == 0 && RECORDER_ENTRIES <= 128,
               "a power of two, at most 128");
_Static_assert(sizeof(recorder_entry_t) == 8 && sizeof(recorder_t) == 4 + 8 * RECORDER_ENTRIES, "no gaps");

volatile recorder_t causeway_recorder;

/* Not initialised where it is defined: that would put all of it into flash as well. */
void recorder_start(void)
{
    causeway_recorder.format = RECORDER_FORMAT;
    causeway_recorder.size = RECORDER_ENTRIES;
}

void recorder_note(recorder_kind_t kind, uint16_t peer, uint8_t sequence, uint16_t tick)
{
    uint16_t number = causeway_recorder.next;
    volatile recorder_entry_t *entry = &causeway_recorder.entries[number % RECORDER_ENTRIES];
    entry->number = number;
    entry->peer = peer;
    entry->tick = tick;
    entry->kind = (uint8_t)kind;
    entry->sequence = sequence;
    causeway_recorder.next = (uint16_t)(number + 1);
}
