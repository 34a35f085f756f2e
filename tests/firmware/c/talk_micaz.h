/* talk_sim.c's ether for MICAz motes: a frame's bytes reach the others' chips as they leave the sender's. There are no collisions: a chip
 * that hears two frames at once goes on with the first. */
#include "micaz_sim.h"

/* Nobody may run ahead of what others do to it. From a strobe to the moment when others can find the channel busy it is 192 us, 1415
 * cycles; while a frame is on the air, a byte is due at the receiver 32 us, 235 cycles, after it left the sender. */
enum { QUANTUM = 1200, QUANTUM_ON_AIR = 128 };

typedef struct {
    micaz_t board; /* first: a pointer to it, or to its processor, is one to this */
    node_t node;
    heard_frame_t *copies[NODES]; /* of the frame that it is sending, in the others' chips */
} radio_t;

static radio_t radios[NODES];

static node_t *node_of(atmega_t *mcu)
{
    return &((radio_t *)mcu)->node;
}

/* The copy of the sender's frame at another node, if that has not forgotten it: its place may have been used again. */
static heard_frame_t *copy_at(const radio_t *sender, int other, uint64_t sfd)
{
    heard_frame_t *copy = sender->copies[other];
    return copy != NULL && copy->sfd == sfd ? copy : NULL;
}

static void on_begin(chip_t *chip)
{
    radio_t *sender = chip->owner;
    for (int i = 0; i < node_count; i++) {
        micaz_t *other = &radios[i].board;
        sender->copies[i] = NULL;
        if (other != &sender->board && !sender->node.apart[i]) {
            uint8_t nothing[130] = {chip->tx[0]};
            int count = (chip->tx[0] & 0x7F) + 1;
            sender->copies[i] = chip_add_frame(&other->chip, chip->tx_sfd_at, nothing, count, -20, 105);
            micaz_schedule(other);
        }
    }
}

static void on_byte(chip_t *chip, int at, uint8_t byte)
{
    const radio_t *sender = chip->owner;
    for (int i = 0; i < node_count; i++) {
        heard_frame_t *copy = copy_at(sender, i, chip->tx_sfd);
        if (copy != NULL) {
            copy->bytes[at] = byte;
        }
    }
}

static void on_break(chip_t *chip)
{
    radio_t *sender = chip->owner;
    uint64_t sfd = chip->tx_sfd_at != NEVER ? chip->tx_sfd_at : chip->tx_sfd;
    for (int i = 0; i < node_count; i++) {
        heard_frame_t *copy = copy_at(sender, i, sfd);
        if (copy != NULL) {
            copy->count = (uint8_t)chip->tx_at;
            micaz_schedule(&radios[i].board);
        }
    }
    say(&sender->node, "broken");
    printf("%d\n", chip->tx_at);
}

static void on_sent(chip_t *chip, uint64_t sfd, const uint8_t *bytes, int count)
{
    say_air(&((radio_t *)chip->owner)->node, cycle_of(sfd), bytes, count);
}

static node_t *radio_make(const char *path)
{
    radio_t *radio = &radios[node_count];
    if (!micaz_make(&radio->board, path)) {
        return NULL;
    }
    radio->node.mcu = &radio->board.mcu;
    chip_t *chip = &radio->board.chip;
    chip->on_begin = on_begin;
    chip->on_byte = on_byte;
    chip->on_break = on_break;
    chip->on_sent = on_sent;
    return &radio->node;
}

static void radio_switch_on(node_t *node)
{
    (void)node;
}

static void radio_keep(int i)
{
    (void)i;
}

static bool radio_is_on_air(int i)
{
    return radios[i].board.chip.mode == MODE_SEND;
}

static void radio_report(int i)
{
    (void)i;
}

static bool radio_blind(int i)
{
    radios[i].board.blind = true;
    return true;
}
