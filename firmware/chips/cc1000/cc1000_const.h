/** The CC1000's registers and the values that MICA2 gives them. From the chip's data sheet (SWRS048). */
#pragma once

#include "causeway_layout.h"

/* Register addresses, seven bits. */
enum {
    CC1000_MAIN = 0x00,
    CC1000_FREQ_2A = 0x01,
    CC1000_FREQ_1A = 0x02,
    CC1000_FREQ_0A = 0x03,
    CC1000_FREQ_2B = 0x04,
    CC1000_FREQ_1B = 0x05,
    CC1000_FREQ_0B = 0x06,
    CC1000_FSEP1 = 0x07,
    CC1000_FSEP0 = 0x08,
    CC1000_CURRENT = 0x09,
    CC1000_FRONT_END = 0x0A,
    CC1000_PA_POW = 0x0B,
    CC1000_PLL = 0x0C,
    CC1000_LOCK = 0x0D,
    CC1000_CAL = 0x0E,
    CC1000_MODEM2 = 0x0F,
    CC1000_MODEM1 = 0x10,
    CC1000_MODEM0 = 0x11,
    CC1000_MATCH = 0x12,
    CC1000_FSCTRL = 0x13,
    CC1000_TEST4 = 0x42,
};

/* MAIN: which parts are on. A PD bit powers its part down. */
enum {
    CC1000_MAIN_TX = 1 << 7,     /* RXTX */
    CC1000_MAIN_FREQ_B = 1 << 6, /* F_REG: frequency word B, else A */
    CC1000_MAIN_RX_PD = 1 << 5,
    CC1000_MAIN_TX_PD = 1 << 4,
    CC1000_MAIN_FS_PD = 1 << 3,   /* frequency synthesizer */
    CC1000_MAIN_CORE_PD = 1 << 2, /* crystal oscillator */
    CC1000_MAIN_BIAS_PD = 1 << 1,
    CC1000_MAIN_RESET_N = 1 << 0,
};

#define CC1000_MAIN_OFF                                                                                      \
    (CC1000_MAIN_RX_PD | CC1000_MAIN_TX_PD | CC1000_MAIN_FS_PD | CC1000_MAIN_CORE_PD | CC1000_MAIN_BIAS_PD | \
     CC1000_MAIN_RESET_N)
#define CC1000_MAIN_CORE_ON (CC1000_MAIN_OFF & ~CC1000_MAIN_CORE_PD)
#define CC1000_MAIN_RESET (CC1000_MAIN_CORE_ON & ~CC1000_MAIN_RESET_N)
#define CC1000_MAIN_BIAS_ON (CC1000_MAIN_CORE_ON & ~CC1000_MAIN_BIAS_PD)
#define CC1000_MAIN_RECEIVE (CC1000_MAIN_TX_PD | CC1000_MAIN_RESET_N)
#define CC1000_MAIN_TRANSMIT (CC1000_MAIN_TX | CC1000_MAIN_FREQ_B | CC1000_MAIN_RX_PD | CC1000_MAIN_RESET_N)

/* LOCK: its lower bits show the PLL's lock, its upper ones choose the pin CHP_OUT's signal (9: Manchester
 * violations).
 */
enum { CC1000_LOCK_CONTINUOUS = 1 << 0, CC1000_LOCK_VIOLATION = 9 << 4 };

/* CAL: a calibration. The data sheet wants ITERATE = 6 and WAIT = 1. */
enum {
    CC1000_CAL_START = 1 << 7,
    CC1000_CAL_WAIT = 1 << 5,
    CC1000_CAL_COMPLETE = 1 << 3,
    CC1000_CAL_ITERATE = 6,
};
#define CC1000_CAL_IDLE (CC1000_CAL_WAIT | CC1000_CAL_ITERATE)

/* packet_formats/cc1000.py computes the values that depend on the frequency, for the deployment's band.
 * Received bits come out inverted, since the local oscillator is above the channel. */
#define CC1000_REFDIV CAUSEWAY_BAND_REFDIV
#define CC1000_FREQ_A CAUSEWAY_BAND_FREQ_A
#define CC1000_FREQ_B CAUSEWAY_BAND_FREQ_B
#define CC1000_FSEP CAUSEWAY_BAND_FSEP
#define CC1000_CURRENT_RECEIVE CAUSEWAY_BAND_CURRENT_RECEIVE
#define CC1000_CURRENT_TRANSMIT CAUSEWAY_BAND_CURRENT_TRANSMIT
#define CC1000_FRONT_END_RSSI CAUSEWAY_BAND_FRONT_END
#define CC1000_MATCH_VALUE CAUSEWAY_BAND_MATCH
#ifndef CC1000_CONF_PA_POW
#define CC1000_CONF_PA_POW CAUSEWAY_BAND_PA_POW /* 0 dBm; 0x01 is the least, 0xFF the most */
#endif

/* The rest. */
#define CC1000_PA_POW_OFF 0x00
#define CC1000_PLL_VALUE (CC1000_REFDIV << 3)
#define CC1000_MODEM2_VALUE 0x00 /* no peak detector */
#define CC1000_MODEM1_VALUE 0x6F /* averaging filter free running, the longest settling (86 bauds) */
#define CC1000_MODEM0_VALUE 0x55 /* 38400 baud from a 14.7456 MHz crystal, synchronous Manchester */
#define CC1000_FSCTRL_VALUE 0x01 /* synthesizer's shaping off */
#define CC1000_TEST4_VALUE 0x3F  /* the PLL's loop for 38400 baud and more */

/* Times that the data sheet asks for, us. */
#define CC1000_CRYSTAL_US 2000 /* the crystal starts */
#define CC1000_BIAS_US 200
#define CC1000_PLL_US 250 /* the PLL locks after a change between receiving and sending */
#define CC1000_PA_US 20   /* the amplifier settles */
#define CC1000_CAL_POLL_US 200
#define CC1000_CAL_POLLS 340 /* 68 ms: twice the 34 ms that it may take */
