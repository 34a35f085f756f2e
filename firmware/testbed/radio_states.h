/** What a radio can be doing, as far as its current depends on it. */
#pragma once

/** Off: no supply, or its regulator off. Down: registers are kept, or could be written, but no oscillator
 * runs. Starting: its crystal does. Idle: only the oscillator runs. Calibrating: the synthesizer runs, but it
 * neither hears nor sends.
 */
typedef enum {
    RADIO_OFF,
    RADIO_DOWN,
    RADIO_STARTING,
    RADIO_IDLE,
    RADIO_CALIBRATING,
    RADIO_RECEIVING,
    RADIO_SENDING,
    RADIO_STATES,
} radio_state_t;
