/* As much of Zephyr as the example uses: enough to compile it, not to run it. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int64_t ticks;
} k_timeout_t;

struct k_mutex {
    int owner;
};

struct k_thread {
    int priority;
};

typedef char k_thread_stack_t;
typedef void (*k_thread_entry_t)(void *a, void *b, void *c);

#define K_FOREVER ((k_timeout_t){-1})
#define K_NO_WAIT ((k_timeout_t){0})
#define K_SECONDS(seconds) ((k_timeout_t){(seconds)*1000})
#define K_MUTEX_DEFINE(name) struct k_mutex name
#define K_THREAD_STACK_DEFINE(name, size) k_thread_stack_t name[size]
#define K_THREAD_STACK_SIZEOF(name) sizeof(name)

int k_mutex_lock(struct k_mutex *mutex, k_timeout_t timeout);
int k_mutex_unlock(struct k_mutex *mutex);
int32_t k_sleep(k_timeout_t timeout);
struct k_thread *k_thread_create(struct k_thread *thread, k_thread_stack_t *stack, size_t size,
                                 k_thread_entry_t entry, void *a, void *b, void *c, int priority,
                                 uint32_t options, k_timeout_t delay);

#endif
