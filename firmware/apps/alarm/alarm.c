/* Alarm: a mote on which a shadow falls sends an alarm; each other mote reads its own light and answers; then
 * the first reports how many answers it has heard. So each message has a cause that people understand. For
 * examples/alarm.toml. */
#include "net/node.h"

#ifndef CW_VALUES
#error "this app needs the [[data]] of examples/alarm.toml"
#endif

enum { LOOK, LATER }; /* timers */
enum { NOTHING, ALARM, ANSWER, END };

#define DARK 300
#define LOOKS (NODE_SECOND / 4)
#define ANSWERS (CAUSEWAY_SEND_SECONDS * NODE_SECOND / 16) /* come within this time, */
#define ENDS (6 * ANSWERS)                                 /* and after this they are counted no more */

static struct cw_values next; /* sent later: an answer, or the end of our own alarm */
static uint8_t alarms;        /* our own, so far */
static uint16_t light = DARK; /* as we last saw it */

void app_start(void)
{
    node_every(LOOK, LOOKS);
}

void app_on_timer(uint8_t timer)
{
    if (timer == LOOK) {
        node_read(SENSOR_LIGHT);
        return;
    }
    next.light = light;
    node_send_values(&next);
    next.kind = NOTHING;
    node_leds(0);
}

void app_on_reading(uint8_t sensor, uint16_t reading)
{
    (void)sensor;
    if (reading < DARK && light >= DARK) {
        next = (struct cw_values){
            .kind = ALARM, .about = (uint8_t)node_id(), .number = ++alarms, .light = reading};
        node_send_values_urgent(&next);
        next.kind = END;
        node_after(LATER, ENDS);
        node_leds(LED_YELLOW);
    }
    light = reading;
}

/* While our own alarm is on we count the answers that can have known of it, and send none. */
void app_on_message(const node_message_t *message)
{
    struct cw_values heard;
    cw_values_unpack(message->data, &heard);
    if (heard.kind == ANSWER && next.kind == END && heard.about == node_id() &&
        message->order != NODE_NOT_AFTER_OURS) {
        next.answers++;
    } else if (heard.kind == ALARM && next.kind != END) {
        next = (struct cw_values){.kind = ANSWER, .about = heard.about, .number = heard.number};
        node_after(LATER, node_random(ANSWERS));
    }
}
