#include <causeway/mote.h>
#include <causeway/ticks.h>

module StampedP
{
    uses {
        interface Boot;
        interface SplitControl as Radio;
        interface AMSend;
        interface Receive;
        interface Timer<TMilli>;
        interface Read<uint16_t>;
        interface GlobalTime<T32khz>;
    }
}
implementation
{
    cw_mote_t mote;
    message_t packet;
    bool sending;

    event void Boot.booted()
    {
        cw_mote_start(&mote, TOS_NODE_ID, 0, 0); /* 0: keep a count of boots in a ConfigStorage */
        call Radio.start();
    }

    event void Radio.startDone(error_t error)
    {
        call Timer.startPeriodic(5000);
    }

    event void Radio.stopDone(error_t error) {}

    event void Timer.fired()
    {
        call Read.read();
    }

    event void Read.readDone(error_t result, uint16_t light)
    {
        uint32_t time = 0;
        bool in_sync = call GlobalTime.getGlobalTime(&time) == SUCCESS;
        struct cw_values values;
        uint8_t data[CAUSEWAY_DATA_BYTES];
        uint8_t length;

        if (sending)
            return;
        values.light = light;
        cw_values_pack(&values, data);
        length = cw_mote_send(&mote, cw_tick(time), in_sync, 0, data,
                              call AMSend.getPayload(&packet, CAUSEWAY_PAYLOAD_BYTES));
        sending = length && call AMSend.send(AM_BROADCAST_ADDR, &packet, length) == SUCCESS;
    }

    event void AMSend.sendDone(message_t *message, error_t error)
    {
        sending = FALSE;
    }

    event message_t *Receive.receive(message_t *message, void *payload, uint8_t length)
    {
        uint32_t time = 0;
        bool in_sync = call GlobalTime.getGlobalTime(&time) == SUCCESS;

        cw_mote_receive(&mote, cw_tick(time), in_sync, payload, length);
        return message;
    }
}
