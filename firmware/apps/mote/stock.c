/* The stock app: it sends the values of the deployment's [[data]], again and again.
 *
 * A value with a sensor is its reading, one without the number of the message. Without [[data]] a message
 * holds that number and those before it, 16 bits each, as many as fit. The command rate sets the mean cycles
 * between sends until the next start, 0 stops sending.
 */
#include <string.h>

#include "causeway/bytes.h"
#include "net/node.h"

/* Mean cycles between sends, until a command changes it; each pause is drawn from 3/4 to 5/4 of it. */
#ifndef MOTE_PERIOD
#define MOTE_PERIOD (CAUSEWAY_SEND_SECONDS * CLOCK_SECOND)
#endif

enum { SEND };

static uint16_t counter;

void app_start(void)
{
    node_every(SEND, MOTE_PERIOD);
}

#ifdef CW_VALUES

#define OR_BIT(name, type, sensor) | 1UL << sensor
#define SENSORS_ASKED (0UL CW_VALUES_LIST(OR_BIT)) /* with SENSOR_NONE's bit, if a value has no sensor */

static struct cw_values values;

/* Readings come in the order of enum sensor. */
static bool is_last(uint8_t sensor)
{
    return sensor == 8 * sizeof(long) - 1 - (unsigned)__builtin_clzl(SENSORS_ASKED);
}

static void take(uint8_t sensor, uint16_t reading)
{
#define TAKE(name, type, from) \
    if (sensor == from)        \
        values.name = (__typeof__(values.name))(reading);
    CW_VALUES_LIST(TAKE)
    if (is_last(sensor)) {
        node_send_values(&values);
        counter++;
    }
}

void app_on_timer(uint8_t timer)
{
    (void)timer;
#define READ(name, type, sensor) node_read(sensor);
    CW_VALUES_LIST(READ)
    take(SENSOR_NONE, counter);
}

void app_on_reading(uint8_t sensor, uint16_t reading)
{
    take(sensor, reading);
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
