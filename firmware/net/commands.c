#include "commands.h"

#include "causeway/records.h"
#include "hal/clock.h"
#include "identity.h"
#include "admission.h"
#include "forwarding.h"
#include "mic.h"
#include "timesync.h"
#include "traffic.h"

#define KEPT 4
static uint32_t obeyed[KEPT]; /* with a key, when the last commands were made, in network time */

void commands_on_epoch(void)
{
    for (uint8_t i = 0; MIC_BYTES && i < KEPT; i++)
        obeyed[i] = timesync_network(clock_now());
}

/* Whether a command made at this time is new: if so, it replaces the oldest that we remember. */
static bool is_newest(uint32_t made)
{
    uint32_t *oldest = obeyed;
    for (uint8_t i = 0; i < KEPT; i++) {
        if (obeyed[i] == made)
            return false;
        if (clock_before(obeyed[i], *oldest))
            oldest = &obeyed[i];
    }
    if (clock_before(made, *oldest))
        return false;
    *oldest = made;
    return true;
}

void commands_on_heard(const radio_message_t *message, uint32_t now)
{
    cw_downlink_t command;
    if (!cw_downlink_get(message->data, MIC_REST(message->length), &command)) {
        count(&traffic.foreign);
        return;
    }
    uint32_t made = MIC_BYTES ? mic_command_time(message->data, timesync_network(now)) : 0;
    if (!admission_command(message, command.sequence, made))
        return;
    if (command.hops > 0 && command.target != identity_id())
        forwarding_plain(message, CAUSEWAY_DOWNLINK_HOPS_AT, (uint8_t)(command.hops - 1), now);
    if (MIC_BYTES && (!timesync_known() || !is_newest(made)))
        return;
    if (command.target == identity_id() || command.target == CW_TARGET_ALL)
        commands_on_command(command.command, command.argument);
}
