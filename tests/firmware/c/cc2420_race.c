/* The CC2420 driver's timer interrupt between any two accesses to memory of radio_service(): a send that
 * waits must go on.
 *
 * The driver is built with -fsanitize=thread but linked without its library: the calls before each access
 * land here.
 */
#include <stdio.h>

#include "chips/cc2420/cc2420.c"
#include "chips/cc2420/cc2420_chip.c"
#include "chips/cc2420/cc2420_receive.c"
#include "chips/cc2420/cc2420_send.c"
#include "chips/cc2420/cc2420_sleep.c"
#include "core/air.c"
#include "core/random.c"

#define UNSEEN __attribute__((no_sanitize_thread))

static volatile uint32_t accesses, interrupt_at; /* volatile: the compiler takes the calls for harmless */
static volatile bool watching;

UNSEEN static void before_access(void)
{
    if (!watching)
        return;
    uint32_t this = accesses;
    accesses = this + 1;
    if (this == interrupt_at) {
        watching = false;
        cc2420_on_timer();
        watching = true;
    }
}

#define HOOK(name)                   \
    UNSEEN void name(void *address); \
    UNSEEN void name(void *address)  \
    {                                \
        (void)address;               \
        before_access();             \
    }
/* clang-format off */
#define HOOKS(size) \
    HOOK(__tsan_read##size) HOOK(__tsan_write##size) \
    HOOK(__tsan_volatile_read##size) HOOK(__tsan_volatile_write##size) \
    HOOK(__tsan_unaligned_read##size) HOOK(__tsan_unaligned_write##size)
/* clang-format on */
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
HOOK(__tsan_func_entry)
HOOK(__tsan_func_exit)

void __tsan_init(void);
void __tsan_read_range(void *address, long size);
void __tsan_write_range(void *address, long size);
UNSEEN void __tsan_init(void) {}
UNSEEN void __tsan_read_range(void *address, long size)
{
    (void)address, (void)size;
}
UNSEEN void __tsan_write_range(void *address, long size)
{
    (void)address, (void)size;
}

/* A board on which nothing comes in and the channel is clear. */
void cc2420_board_start(void) {}
void cc2420_board_power(bool on)
{
    (void)on;
}
void cc2420_board_reset(bool hold)
{
    (void)hold;
}
void cc2420_board_select(bool select)
{
    (void)select;
}
uint8_t cc2420_board_exchange(uint8_t byte)
{
    (void)byte;
    return CC2420_STATUS_XOSC | CC2420_STATUS_TX_ACTIVE;
}
bool cc2420_board_fifo(void)
{
    return false;
}
bool cc2420_board_fifop(void)
{
    return false;
}
bool cc2420_board_cca(void)
{
    return true;
}
bool cc2420_board_sfd(void)
{
    return false;
}
void cc2420_board_wait(uint16_t us)
{
    (void)us;
}
void cc2420_board_listen(bool on)
{
    (void)on;
}
void cc2420_board_capture_rising(bool rising)
{
    (void)rising;
}
uint16_t cc2420_board_counter(void)
{
    return 0;
}
void cc2420_board_timer(uint16_t counts)
{
    (void)counts;
}
void cc2420_board_timer_off(void) {}
bool cc2420_board_timer_runs(void)
{
    return true;
}
uint8_t cc2420_board_lock(void)
{
    return 0;
}
void cc2420_board_unlock(uint8_t was)
{
    (void)was;
}
uint32_t clock_now(void)
{
    return 0;
}
uint32_t clock_of_capture(uint16_t capture)
{
    return capture;
}
void events_post(uint8_t events)
{
    (void)events;
}
void power_need(uint8_t user)
{
    (void)user;
}
void power_release(uint8_t user)
{
    (void)user;
}
void radio_on_heard(const radio_heard_t *heard)
{
    (void)heard;
}
void radio_on_sent(radio_result_t result, uint32_t time)
{
    (void)result, (void)time;
}
uint32_t radio_stamp(uint32_t local)
{
    return local;
}

/* Whether the timer came at all; `lost` when the send is not on the air after a service during which it came,
 * and the one that its event causes. */
UNSEEN static bool comes(uint32_t at, bool *lost)
{
    cc2420_mode = CHIP_ON;
    sending = SEND_WAITS;
    send_deadline = 1000;
    send_stamp_at = RADIO_NO_STAMP;
    timer_up = false;
    timer_laps = 0;
    accesses = 0;
    interrupt_at = at;
    watching = true;
    radio_service();
    watching = false;
    bool came = accesses > at;
    radio_service();
    *lost = came && sending != SEND_ON_AIR;
    return came;
}

UNSEEN int main(void)
{
    uint32_t at = 0;
    bool lost;
    while (comes(at, &lost)) {
        if (lost) {
            printf("the timer is lost before access %u\n", (unsigned)at);
            return 1;
        }
        at++;
    }
    printf("%u accesses\n", (unsigned)at);
    return at < 4;
}
