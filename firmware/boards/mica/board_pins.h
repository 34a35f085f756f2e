/** What a board adds to board_start(). */
#ifndef MICA_BOARD_PINS_H
#define MICA_BOARD_PINS_H

/** The pins of the board's radio to their resting state, the radio off. A board that has nothing to do leaves it out. */
void board_radio_pins(void);

#endif
