#include "readings.h"

#include "hal/clock.h"
#include "hal/events.h"
#include "timers.h"

#define CONVERSION_PATIENCE (NODE_SECOND / 16) /* a conversion takes a fraction of a millisecond */
#define RETRY (NODE_SECOND / 1024)

static uint8_t wanted;     /* by the app: bit `sensor - 1` of each */
static bool health_waits;  /* for the battery */
static uint8_t being_read; /* the sensor that is being read */
static uint8_t last_read;  /* the last that was */
static bool warm;          /* its conversion has been started */

_Static_assert(SENSORS - 1 <= 8, "each sensor has a bit of `wanted`");

static uint8_t bit_of(uint8_t sensor)
{
    return (uint8_t)(1U << (sensor - 1));
}

void node_read(uint8_t sensor)
{
    if (sensor > SENSOR_NONE && sensor < SENSORS)
        wanted |= bit_of(sensor);
}

void readings_battery(void)
{
    health_waits = true;
}

/* Sensors in turn, so that a sensor read often does not keep others waiting. At least one is wanted. */
static uint8_t next_sensor(void)
{
    uint8_t all = (uint8_t)(wanted | (health_waits ? bit_of(SENSOR_BATTERY) : 0));
    do {
        last_read = last_read >= SENSORS - 1 ? SENSOR_NONE + 1 : (uint8_t)(last_read + 1);
    } while (!(all & bit_of(last_read)));
    return last_read;
}

/* Hand the reading to the app and to health, whichever wanted it. */
static void end_reading(uint16_t reading)
{
    uint8_t sensor = being_read, bit = bit_of(sensor);
    being_read = SENSOR_NONE;
    warm = false;
    timer_off(TIMER_READING);
    if (health_waits && sensor == SENSOR_BATTERY) {
        health_waits = false;
        readings_on_battery(reading == NODE_NO_READING ? 0 : reading);
    }
    if (wanted & bit) {
        wanted &= (uint8_t)~bit;
        app_on_reading(sensor, reading);
    }
    if (wanted == 0)
        sensor_off();
}

static void begin_reading(uint32_t now)
{
    being_read = next_sensor();
    uint16_t warm_up = being_read == SENSOR_BATTERY ? 0 : sensor_on(being_read);
    if (warm_up == SENSOR_MISSING)
        end_reading(NODE_NO_READING);
    else
        timer_set(TIMER_READING, now + warm_up);
}

static void convert_next(uint32_t now)
{
    warm = being_read == SENSOR_BATTERY ? adc_start_supply() : adc_start(sensor_channel(being_read));
    timer_set(TIMER_READING, now + (warm ? CONVERSION_PATIENCE : RETRY));
}

void readings_step(uint8_t events, uint32_t now)
{
    if (warm && (events & EVENT_ADC))
        end_reading(adc_value());
    /* skip sensors that the board does not have; bounded, since an app may ask for one again and again */
    for (uint8_t i = 1; i < SENSORS && being_read == SENSOR_NONE && (wanted || health_waits); i++)
        begin_reading(now);
    if (timer_due(TIMER_READING, now)) {
        if (warm)
            end_reading(NODE_NO_READING);
        else
            convert_next(now);
    }
}

bool readings_sound(void)
{
    return being_read < SENSORS && (being_read != SENSOR_NONE) == timer_runs(TIMER_READING) &&
           (being_read != SENSOR_NONE || !warm);
}
