/* Fuzzing of the whole core: what reads bytes (deframer.c), and motes that send, hear, and hear strangers.
 *
 * tests/soak/c_fuzz.py builds it for each layout and searches. The first byte of an input says which of the
 * two; the rest is a serial line, or what happens to two motes.
 */
#define LLVMFuzzerTestOneInput read_line
#include "deframer.c"
#undef LLVMFuzzerTestOneInput

#include "causeway/knows.h"
#include "causeway/mote.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The bytes of an input, one after the other; zeros when they are used up. */
typedef struct {
    const uint8_t *at, *end;
} input_t;

static uint8_t next(input_t *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

typedef struct {
    uint8_t bytes[CAUSEWAY_PAYLOAD_BYTES];
    uint8_t length;
} message_t;

static void hear(cw_mote_t *mote, uint32_t tick, const uint8_t *payload, uint8_t length, bool in_sync)
{
    cw_own_t ours = {mote->id, mote->sequence, mote->tick};
    uint8_t *own = copy(payload, length);

    if (cw_mote_receive(mote, tick, in_sync, own, length) == CW_MOTE_NEW)
        (void)cw_knows(own, length, tick, &ours);
    free(own);
}

/* A message that a mote makes is one that every mote of the layout reads. */
static void send(cw_mote_t *mote, uint32_t tick, bool in_sync, input_t *input, message_t *message)
{
    uint8_t data[CAUSEWAY_DATA_BYTES + 1];
    cw_data_counters_t counters = {{0}};

    for (uint16_t i = 0; i < CAUSEWAY_DATA_BYTES; i++)
        data[i] = next(input);
    message->length = cw_mote_send(mote, tick, in_sync, next(input) & 3, data, message->bytes);
    if (!message->length) { /* it has sent in this tick already */
        must(CAUSEWAY_ONE_SEND_A_TICK);
        return;
    }
    must(message->length <= CAUSEWAY_PAYLOAD_BYTES);
    must(cw_data_check(message->bytes, message->length, &counters) == CW_DATA_OK);
    must(cw_data_source(message->bytes) == mote->id);
}

static void play(input_t *input)
{
    cw_mote_t *motes = calloc(2, sizeof(*motes));
    message_t sent[2] = {{{0}, 0}, {{0}, 0}};
    uint32_t tick = (uint32_t)next(input) << 24;

    must(motes != NULL);
    for (uint16_t i = 0; i < 2; i++)
        cw_mote_start(&motes[i], i % CAUSEWAY_MOTES, next(input), tick);
    while (input->at < input->end) {
        uint8_t what = next(input), who = what & 1, other = !who;
        bool in_sync = !(what & 2);
        uint8_t foreign[256];

        tick += what & 4 ? (uint32_t)next(input) << (what >> 5) : 1;
        switch (what >> 3 & 3) {
        case 0: /* it sends */
            send(&motes[who], tick, in_sync, input, &sent[who]);
            break;
        case 1: /* it hears what the other one sent, perhaps with a byte changed */
            if (sent[other].length) {
                memcpy(foreign, sent[other].bytes, sent[other].length);
                if (what & 32)
                    foreign[next(input) % sent[other].length] ^= next(input);
                hear(&motes[who], tick, foreign, sent[other].length, in_sync);
            }
            break;
        case 2: { /* it hears anything at all */
            uint8_t length = next(input);

            for (uint16_t i = 0; i < length; i++)
                foreign[i] = next(input);
            hear(&motes[who], tick, foreign, length, in_sync);
            break;
        }
        default: /* it loses the time, and finds another one */
            cw_mote_restart(&motes[who], tick);
        }
    }
    free(motes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size && bytes[0] & 1) {
        input_t input = {bytes + 1, bytes + size};
        play(&input);
    } else if (size) {
        read_line(bytes + 1, size - 1);
    }
    return 0;
}
