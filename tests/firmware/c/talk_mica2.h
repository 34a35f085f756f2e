/* talk_sim.c's ether for MICA2 motes: bits. Bytes begin at any bit of others' bytes; what is received is the complement of what was sent;
 * where nobody sends, or two do at once, noise is received. */
#include "mica2_sim.h"

/* Nobody may run ahead of what others do to it. A sender has written a byte 192 cycles after its beginning, and its first bit is
 * looked for after 384; the first bits of a preamble may be missed. */
enum { QUANTUM = 1200, QUANTUM_ON_AIR = 64 };
enum { QUIET_MV = 1100, LOUD_MV = 400, FRAME = 128 };

typedef struct {
    mica2_t board; /* first: a pointer to it, or to its processor, is one to this */
    node_t node;
    uint8_t out[FRAME]; /* what has gone out since the antenna has had power */
    int out_count;
    avr_cycle_count_t out_end;
} radio_t;

static radio_t radios[NODES];
static uint32_t noise_state = 1;

static node_t *node_of(atmega_t *mcu)
{
    return &((radio_t *)mcu)->node;
}

static bool noise(void)
{
    noise_state = noise_state * 1664525 + 1013904223;
    return noise_state >> 31;
}

static bool hears(const radio_t *radio, int i)
{
    return &radios[i] != radio && !radio->node.apart[i] && mica2_sends(&radios[i].board);
}

/* What a sender has on the air at a time not long ago. */
static bool bit_of(const mica2_t *sender, avr_cycle_count_t at)
{
    bool current = at >= sender->byte_at;
    avr_cycle_count_t since = current ? at - sender->byte_at : at + BYTE_CYCLES - sender->byte_at;
    return (current ? sender->going : sender->gone) >> (7 - since / BIT_CYCLES % 8) & 1;
}

static bool bit_at(const radio_t *receiver, avr_cycle_count_t at)
{
    int senders = 0;
    bool bit = false;
    for (int i = 0; i < node_count; i++) {
        if (hears(receiver, i)) {
            senders++;
            bit = !bit_of(&radios[i].board, at);
        }
    }
    return senders == 1 ? bit : noise();
}

/* The last byte's time, bit by bit, each in its middle. */
static uint8_t receive(mica2_t *mote)
{
    const radio_t *receiver = (radio_t *)mote;
    uint8_t byte = 0;
    for (int i = 8; i > 0; i--) {
        byte = (uint8_t)(byte << 1 | bit_at(receiver, mote->byte_at - (avr_cycle_count_t)(i * BIT_CYCLES - BIT_CYCLES / 2)));
    }
    return byte;
}

static uint32_t rssi(mica2_t *mote)
{
    for (int i = 0; i < node_count; i++) {
        if (hears((radio_t *)mote, i)) {
            return LOUD_MV;
        }
    }
    return QUIET_MV;
}

/* The antenna has no power any more: say what was sent after the sync word, two bytes of flush left out. */
static void end_frame(radio_t *radio)
{
    for (int i = 0; i + 1 < radio->out_count; i++) {
        if (radio->out[i] == 0x33 && radio->out[i + 1] == 0xCC) {
            int rest = radio->out_count - i - 2;
            avr_cycle_count_t sync = radio->out_end - (avr_cycle_count_t)(rest * BYTE_CYCLES);
            say_air(&radio->node, sync, radio->out + i + 2, rest > 2 ? rest - 2 : 0);
            break;
        }
    }
    radio->out_count = 0;
}

static void on_byte(mica2_t *mote, bool runs)
{
    (void)runs;
    radio_t *radio = (radio_t *)mote;
    if (!mica2_sends(mote)) {
        if (radio->out_count > 0) {
            end_frame(radio);
        }
    } else if (radio->out_count < FRAME) {
        radio->out[radio->out_count++] = mote->gone;
        radio->out_end = mote->byte_at;
    }
}

static node_t *radio_make(const char *path)
{
    radio_t *radio = &radios[node_count];
    if (!mica2_make(&radio->board, path)) {
        return NULL;
    }
    radio->board.receive = receive;
    radio->board.on_byte = on_byte;
    radio->board.rssi = rssi;
    radio->node.mcu = &radio->board.mcu;
    return &radio->node;
}

/* Bits of all nodes begin together, bytes do not: receivers follow their sender's bits. */
static void radio_switch_on(node_t *node)
{
    avr_cycle_count_t bits = node->mcu->avr->cycle / BIT_CYCLES + 1 + (avr_cycle_count_t)(3 * node->number % 8);
    mica2_clock(&((radio_t *)node->mcu)->board, bits * BIT_CYCLES);
}

static void radio_keep(int i)
{
    mica2_keep_clock(&radios[i].board);
}

static bool radio_is_on_air(int i)
{
    return mica2_sends(&radios[i].board);
}

static void radio_report(int i)
{
    say(&radios[i].node, "spdr");
    printf("%llu\n", (unsigned long long)radios[i].board.sent_slowest);
}

static bool radio_blind(int i)
{
    (void)i;
    return false;    /* there is no such wire */
}
