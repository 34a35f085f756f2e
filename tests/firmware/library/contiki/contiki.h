/* As much of Contiki-NG as the example uses: enough to compile it, not to run it. */
#ifndef CONTIKI_H
#define CONTIKI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLOCK_SECOND 128

typedef uint8_t process_event_t;
typedef void *process_data_t;

struct process {
    const char *name;
    char (*thread)(process_event_t ev, process_data_t data);
};

struct etimer {
    unsigned long end;
};

void etimer_set(struct etimer *timer, unsigned long interval);
void etimer_reset(struct etimer *timer);
bool etimer_expired(struct etimer *timer);

#define PROCESS_THREAD(name, ev, data) \
    static char process_thread_##name(process_event_t ev, process_data_t data)
#define PROCESS(name, words)        \
    PROCESS_THREAD(name, ev, data); \
    struct process name = {words, process_thread_##name}
#define AUTOSTART_PROCESSES(...) struct process *const autostart_processes[] = {__VA_ARGS__, NULL}
#define PROCESS_BEGIN() ((void)ev, (void)data)
#define PROCESS_END() return 0
#define PROCESS_WAIT_EVENT_UNTIL(condition) \
    while (!(condition))                    \
    return 1

#endif
