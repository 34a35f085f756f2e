#include "mote.h"

#include <string.h>

#include "causeway/bytes.h"

enum { SEND };

static uint16_t counter;

void app_start(void)
{
    node_every(SEND, MOTE_PERIOD);
}

#ifdef CW_VALUES

#define BIT_OF(sensor) (1U << (sensor))
#define AND_BIT(name, type, sensor) | BIT_OF(sensor)

static const uint16_t sensors = (0 CW_VALUES_LIST(AND_BIT)) & ~BIT_OF(SENSOR_NONE);
static uint16_t missing; /* readings of this message that are still to come */
static struct cw_values values;

static void send_values(void)
{
#define COUNT(name, type, sensor)                         \
    if (sensor == SENSOR_NONE) {                          \
        values.name = (__typeof__(values.name))(counter); \
    }
    CW_VALUES_LIST(COUNT)
    node_send_values(&values);
    counter++;
}

/* What did not come the last time is asked for again: a slow sensor may take longer than a period. */
void app_on_timer(uint8_t timer)
{
    (void)timer;
    if (missing == 0) {
        missing = sensors;
    }
    if (missing == 0) {
        send_values();
    }
    for (uint8_t sensor = 0; sensor < SENSORS; sensor++) {
        if (missing & BIT_OF(sensor)) {
            node_read(sensor);
        }
    }
}

void app_on_reading(uint8_t sensor, uint16_t reading)
{
#define TAKE(name, type, from)                            \
    if (sensor == from) {                                 \
        values.name = (__typeof__(values.name))(reading); \
    }
    CW_VALUES_LIST(TAKE)
    missing &= (uint16_t)~BIT_OF(sensor);
    if (missing == 0) {
        send_values();
    }
}

#else

void app_on_timer(uint8_t timer)
{
    static uint8_t data[CAUSEWAY_DATA_BYTES + 1];
    (void)timer;
#if CAUSEWAY_DATA_BYTES >= 2
    memmove(data + 2, data, CAUSEWAY_DATA_BYTES - 2);
    cw_put16(data, counter);
#else
    data[0] = (uint8_t)counter;
#endif
    node_send(data);
    counter++;
}

#endif
