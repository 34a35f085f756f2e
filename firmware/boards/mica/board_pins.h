/** What a board adds to board_start(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** The pins of the board's radio to their resting state, the radio off. A board that has nothing to do leaves
 * it out. */
void board_radio_pins(void);

/** Switch the reference that the supply is measured by on, or off; the ADC's channel of it. A board that has
 * none leaves it out: then it is the processor's own, channel 30, which is always on. From anywhere. */
uint8_t board_supply(bool on);
