/* Several MICAz motes on one ether: talk_sim FIRMWARE.elf[,START_MS[,PPM]]...
 *
 * Nodes are numbered from 0 in the order of the arguments. START_MS is when a node is switched on, PPM how much faster than nominal its
 * 32768 Hz crystal runs, in steps of about 17. A frame's bytes reach the others' chips as they leave the sender's; there are no
 * collisions: a chip that hears two frames at once goes on with the first. Commands come on standard input:
 *
 *     run MS              so many milliseconds
 *     uart NODE HEX       bytes to a node's UART 0
 *     apart NODE NODE     from now on these two do not hear one another
 *     reset NODE          as if by its reset button
 *     peek NODE AT COUNT  bytes of a node's data memory, AT in hexadecimal
 *
 * What happens goes to standard output, each line with its time in CPU cycles at 7372800 Hz since the start of it all, and the node:
 *
 *     uart HEX            bytes that the node has sent on UART 0, up to the end of a serial frame
 *     air SFD HEX         a frame has gone out, length byte to FCS; its delimiter ended at SFD
 *     broken COUNT        a frame was broken off after so many bytes
 *     leds N              what is lit: 1 red, 2 green, 4 yellow
 *     peek HEX
 *
 * Links libsimavr (GPLv3), so this program is under the GPL, too; it is a test tool and no part of the firmware.
 */
#include "micaz_sim.h"

enum { NODES = 8, LINE = 1024 };

/* Nobody may run ahead of what others do to it. From a strobe to the moment when others can find the channel busy it is 192 us, 1415
 * cycles; while a frame is on the air, a byte is due at the receiver 32 us, 235 cycles, after it left the sender. */
enum { QUANTUM = 1200, QUANTUM_ON_AIR = 128 };

typedef struct {
    micaz_t micaz; /* first: a pointer to it is one to this */
    int number;
    int leds;
    uint8_t line[LINE];
    int line_count;
    avr_cycle_count_t line_since;
    heard_frame_t *copies[NODES]; /* of the frame that it is sending, in the others' chips */
    bool apart[NODES];
} node_t;

static node_t nodes[NODES];
static int node_count;
static avr_cycle_count_t now;

static void say(const node_t *node, const char *what)
{
    printf("%llu %d %s", (unsigned long long)node->micaz.avr->cycle, node->number, what);
}

static void say_hex(const uint8_t *bytes, int count)
{
    for (int i = 0; i < count; i++) {
        printf("%02x", bytes[i]);
    }
    printf("\n");
}

/* --- the ether --- */

/* The copy of the sender's frame at another node, if that has not forgotten it: its place may have been used again. */
static heard_frame_t *copy_at(const node_t *sender, int other, uint64_t sfd)
{
    heard_frame_t *copy = sender->copies[other];
    return copy != NULL && copy->sfd == sfd ? copy : NULL;
}

static void on_begin(chip_t *chip)
{
    node_t *sender = chip->owner;
    for (int i = 0; i < node_count; i++) {
        node_t *other = &nodes[i];
        sender->copies[i] = NULL;
        if (other != sender && !sender->apart[i]) {
            uint8_t nothing[130] = {chip->tx[0]};
            int count = (chip->tx[0] & 0x7F) + 1;
            sender->copies[i] = chip_add_frame(&other->micaz.chip, chip->tx_sfd_at, nothing, count, -20, 105);
            micaz_schedule(&other->micaz);
        }
    }
}

static void on_byte(chip_t *chip, int at, uint8_t byte)
{
    const node_t *sender = chip->owner;
    for (int i = 0; i < node_count; i++) {
        heard_frame_t *copy = copy_at(sender, i, chip->tx_sfd);
        if (copy != NULL) {
            copy->bytes[at] = byte;
        }
    }
}

static void on_break(chip_t *chip)
{
    const node_t *sender = chip->owner;
    uint64_t sfd = chip->tx_sfd_at != NEVER ? chip->tx_sfd_at : chip->tx_sfd;
    for (int i = 0; i < node_count; i++) {
        heard_frame_t *copy = copy_at(sender, i, sfd);
        if (copy != NULL) {
            copy->count = (uint8_t)chip->tx_at;
            micaz_schedule(&nodes[i].micaz);
        }
    }
    say(sender, "broken ");
    printf("%d\n", chip->tx_at);
}

static void on_sent(chip_t *chip, uint64_t sfd, const uint8_t *bytes, int count)
{
    say(chip->owner, "air ");
    printf("%llu ", (unsigned long long)cycle_of(sfd));
    say_hex(bytes, count);
}

/* --- UART and LEDs --- */

static void on_uart(micaz_t *micaz, uint8_t byte)
{
    node_t *node = (node_t *)micaz;
    node->line[node->line_count++] = byte;
    if (node->line_count == LINE || (byte == 0x7E && node->line_count > 1)) {
        say(node, "uart ");
        say_hex(node->line, node->line_count);
        node->line_count = 0;
    }
}

static void on_led(avr_irq_t *irq, uint32_t high, void *param)
{
    static const int colours[] = {4, 2, 1}; /* yellow PA0, green PA1, red PA2; low is on */
    node_t *node = param;
    int colour = colours[irq->irq % 8];
    int leds = high ? node->leds & ~colour : node->leds | colour;
    if (leds != node->leds) {
        node->leds = leds;
        say(node, "leds ");
        printf("%d\n", leds);
    }
}

/* --- running --- */

static bool is_on_air(void)
{
    for (int i = 0; i < node_count; i++) {
        if (nodes[i].micaz.chip.mode == MODE_SEND) {
            return true;
        }
    }
    return false;
}

static void run_node(node_t *node, avr_cycle_count_t end)
{
    micaz_t *micaz = &node->micaz;
    if (micaz->avr->cycle < end) {
        micaz_stop_at(micaz, end);
        while (micaz->avr->cycle < end) {
            micaz_run(micaz);
        }
    }
}

static void run(double ms)
{
    avr_cycle_count_t end = now + (avr_cycle_count_t)(ms * HZ / 1000);
    while (now < end) {
        now += is_on_air() ? QUANTUM_ON_AIR : QUANTUM;
        for (int i = 0; i < node_count; i++) {
            run_node(&nodes[i], now);
        }
    }
    fflush(stdout);
}

static bool add_node(char *description)
{
    const char *path = strtok(description, ",");
    const char *start = strtok(NULL, ",");
    const char *ppm = strtok(NULL, ",");
    node_t *node = &nodes[node_count];
    if (path == NULL || !micaz_make(&node->micaz, path)) {
        return false;
    }
    node->number = node_count++;
    avr_t *avr = node->micaz.avr;
    avr->cycle = start != NULL ? (avr_cycle_count_t)(atof(start) * HZ / 1000) : 0;
    /* The library derives the crystal's cycle from what it takes the processor's frequency to be. */
    avr->frequency = (uint32_t)(HZ * (1 - (ppm != NULL ? atof(ppm) : 0) / 1e6) + 0.5);
    node->micaz.on_uart = on_uart;
    chip_t *chip = &node->micaz.chip;
    chip->on_begin = on_begin;
    chip->on_byte = on_byte;
    chip->on_break = on_break;
    chip->on_sent = on_sent;
    for (int bit = 0; bit < 3; bit++) {
        avr_irq_register_notify(micaz_pin(&node->micaz, 'A', bit), on_led, node);
    }
    return true;
}

static bool obey(const char *line)
{
    char hex[2200];
    double ms;
    int node, other, count;
    unsigned at;
    if (sscanf(line, "run %lf", &ms) == 1) {
        run(ms);
    } else if (sscanf(line, "uart %d %2199s", &node, hex) == 2 && node < node_count) {
        micaz_uart_hex(&nodes[node].micaz, hex);
    } else if (sscanf(line, "apart %d %d", &node, &other) == 2 && node < node_count && other < node_count) {
        nodes[node].apart[other] = nodes[other].apart[node] = true;
    } else if (sscanf(line, "reset %d", &node) == 1 && node < node_count) {
        avr_reset(nodes[node].micaz.avr);
    } else if (sscanf(line, "peek %d %x %d", &node, &at, &count) == 3 && node < node_count) {
        say(&nodes[node], "peek ");
        say_hex(nodes[node].micaz.avr->data + at, count);
    } else {
        return false;
    }
    return true;
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        if (node_count == NODES || !add_node(arguments[i])) {
            fprintf(stderr, "no image, or no room for it: %s\n", arguments[i]);
            return 2;
        }
    }
    char line[2400];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (!obey(line)) {
            fprintf(stderr, "what is %s\n", line);
            return 2;
        }
    }
    return 0;
}
