/* An Arduino with a serial radio that broadcasts what it is given (an XBee in transparent mode, for example). It
 * sends a reading every five seconds and hears the others. The base station listens to a radio of the same kind.
 *
 *     python -m packet_formats header deployment.toml -o causeway_layout.h     beside this file
 */
#include <EEPROM.h>
#include <causeway/am.h>
#include <causeway/frame.h>
#include <causeway/mote.h>

#ifndef MOTE_ID
#define MOTE_ID 0 /* another one for each mote, below CAUSEWAY_MOTES */
#endif

static cw_mote_t mote;
static cw_deframer_t line;
static uint32_t last_sent;

void setup()
{
    uint8_t boots = EEPROM.read(0) + 1;
    EEPROM.write(0, boots);
    Serial.begin(9600);
    cw_deframer_start(&line);
    cw_mote_start(&mote, MOTE_ID, boots, 0);
}

static void broadcast(const uint8_t *payload, uint8_t length)
{
    cw_am_t am = {CW_AM_BROADCAST, MOTE_ID, CAUSEWAY_AM_DATA, CAUSEWAY_GROUP, length, payload};
    uint8_t packet[CW_PACKET_LIMIT];
    cw_framer_t framer;
    cw_framer_start(&framer, packet, cw_am_build(&am, packet));
    for (int16_t next = cw_framer_next(&framer); next >= 0; next = cw_framer_next(&framer))
        Serial.write((uint8_t)next);
}

static void hear(const uint8_t *packet, uint8_t length)
{
    cw_packet_t read;
    if (cw_am_parse(packet, length, &read) == CW_PACKET_IS_DATA && read.am.type == CAUSEWAY_AM_DATA &&
        read.am.group == CAUSEWAY_GROUP)
        cw_mote_receive(&mote, 0, true, read.am.data, read.am.length);
}

void loop()
{
    while (Serial.available()) {
        uint8_t length = cw_deframer_put(&line, Serial.read());
        if (length)
            hear(line.packet, length);
    }
    if (millis() - last_sent >= 5000) {
        last_sent += 5000;
        cw_values values = {(uint16_t)analogRead(A0)};
        uint8_t data[CAUSEWAY_DATA_BYTES], payload[CAUSEWAY_PAYLOAD_BYTES];
        cw_values_pack(&values, data);
        broadcast(payload, cw_mote_send(&mote, 0, true, 0, data, payload));
    }
}
