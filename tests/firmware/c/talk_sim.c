/* Several motes on one ether: talk_sim FIRMWARE.elf[,START_MS[,PPM]]...
 *
 * MICAz motes, or MICA2 when compiled with -DTALK_MICA2. Nodes are numbered from 0 in the order of the arguments. START_MS is when a node
 * is switched on, PPM how much faster than nominal its 32768 Hz crystal runs, in steps of about 17. Commands come on standard input:
 *
 *     run MS              so many milliseconds
 *     uart NODE HEX       bytes to a node's UART 0
 *     apart NODE NODE     from now on these two do not hear one another
 *     blind NODE          from now on it does not see SFD (MICAz)
 *     reset NODE          as if by its reset button
 *     peek NODE AT COUNT  bytes of a node's data memory, AT in hexadecimal
 *
 * What happens goes to standard output, each line with its time in CPU cycles at 7372800 Hz since the start of it all, and the node:
 *
 *     uart HEX            bytes that the node has sent on UART 0, up to the end of a serial frame
 *     air SFD HEX         a frame has gone out: what followed its delimiter or sync word, CRC included; that ended at SFD
 *     broken COUNT        a frame was broken off after so many bytes (MICAz)
 *     leds N              what is lit: 1 red, 2 green, 4 yellow
 *     peek HEX
 *     spdr N              at the end: the most cycles from the beginning of a byte on the air to its being written (MICA2)
 *
 * Links libsimavr (GPLv3), so this program is under the GPL, too; it is a test tool and no part of the firmware.
 */
#include "atmega_sim.h"

enum { NODES = 8, LINE = 1024 };

typedef struct {
    atmega_t *mcu;
    int number;
    int leds;
    uint8_t line[LINE];
    int line_count;
    bool apart[NODES];
} node_t;

static node_t *nodes[NODES];
static int node_count;
static avr_cycle_count_t now;

static void say(const node_t *node, const char *what)
{
    printf("%llu %d %s ", (unsigned long long)node->mcu->avr->cycle, node->number, what);
}

static void say_hex(const uint8_t *bytes, int count)
{
    for (int i = 0; i < count; i++) {
        printf("%02x", bytes[i]);
    }
    printf("\n");
}

static void say_air(const node_t *node, avr_cycle_count_t sfd, const uint8_t *bytes, int count)
{
    say(node, "air");
    printf("%llu ", (unsigned long long)sfd);
    say_hex(bytes, count);
}

#ifdef TALK_MICA2
#include "talk_mica2.h"
#else
#include "talk_micaz.h"
#endif

/* --- UART and LEDs --- */

static void on_uart(atmega_t *mcu, uint8_t byte)
{
    node_t *node = node_of(mcu);
    node->line[node->line_count++] = byte;
    if (node->line_count == LINE || (byte == 0x7E && node->line_count > 1)) {
        say(node, "uart");
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
        say(node, "leds");
        printf("%d\n", leds);
    }
}

/* --- running --- */

static bool is_on_air(void)
{
    for (int i = 0; i < node_count; i++) {
        if (radio_is_on_air(i)) {
            return true;
        }
    }
    return false;
}

static void run_node(node_t *node, avr_cycle_count_t end)
{
    avr_t *avr = node->mcu->avr;
    if (avr->cycle < end) {
        atmega_stop_at(node->mcu, end);
        while (avr->cycle < end) {
            atmega_run(node->mcu);
        }
    }
}

static void run(double ms)
{
    avr_cycle_count_t end = now + (avr_cycle_count_t)(ms * HZ / 1000);
    while (now < end) {
        now += is_on_air() ? QUANTUM_ON_AIR : QUANTUM;
        for (int i = 0; i < node_count; i++) {
            radio_keep(i);
            run_node(nodes[i], now);
        }
    }
    fflush(stdout);
}

static bool add_node(char *description)
{
    const char *path = strtok(description, ",");
    const char *start = strtok(NULL, ",");
    const char *ppm = strtok(NULL, ",");
    node_t *node = path != NULL ? radio_make(path) : NULL;
    if (node == NULL) {
        return false;
    }
    node->number = node_count;
    nodes[node_count++] = node;
    avr_t *avr = node->mcu->avr;
    avr->cycle = start != NULL ? (avr_cycle_count_t)(atof(start) * HZ / 1000) : 0;
    /* The library derives the crystal's cycle from what it takes the processor's frequency to be. */
    avr->frequency = (uint32_t)(HZ * (1 - (ppm != NULL ? atof(ppm) : 0) / 1e6) + 0.5);
    radio_switch_on(node);
    node->mcu->on_uart = on_uart;
    for (int bit = 0; bit < 3; bit++) {
        avr_irq_register_notify(atmega_pin(node->mcu, 'A', bit), on_led, node);
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
        atmega_uart_hex(nodes[node]->mcu, hex);
    } else if (sscanf(line, "apart %d %d", &node, &other) == 2 && node < node_count && other < node_count) {
        nodes[node]->apart[other] = nodes[other]->apart[node] = true;
    } else if (sscanf(line, "blind %d", &node) == 1 && node < node_count) {
        return radio_blind(node);
    } else if (sscanf(line, "reset %d", &node) == 1 && node < node_count) {
        avr_reset(nodes[node]->mcu->avr);
    } else if (sscanf(line, "peek %d %x %d", &node, &at, &count) == 3 && node < node_count) {
        say(nodes[node], "peek");
        say_hex(nodes[node]->mcu->avr->data + at, count);
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
    for (int i = 0; i < node_count; i++) {
        radio_report(i);
    }
    return 0;
}
