/** The CC2420 driver's settings; a build may set others. What the driver offers is hal/radio.h.
 *
 * How it works. The chip listens whenever it does not send. FIFOP's interrupt posts EVENT_RADIO, and
 * radio_service() takes frames out of the chip. Timer 1 captures each rise of SFD, the end of a
 * start-of-frame delimiter; the times wait in a queue until their frames are read. A frame whose time is not
 * certain is dropped: the layers above could not use it.
 *
 * A frame to be sent goes into the chip at once. After a random wait the channel must be clear, by the CCA
 * pin and then by the chip itself (STXONCCA sends nothing otherwise); if it is not, a shorter random wait
 * follows, until the deadline. A beacon's time is written into the frame when its start-of-frame delimiter
 * has gone out, before the chip gets there.
 *
 * A chip that has forgotten its settings or its oscillator, or does not end a frame, is started anew; it is
 * looked at once a second.
 */
#pragma once

/** Output power, 0..31: 31 is 0 dBm, 3 is -25 dBm. */
#ifndef CC2420_POWER
#define CC2420_POWER 31
#endif

/** Random waits before the channel is tried, in cycles of local time: first, and after each time it was found
 * busy. */
#ifndef CC2420_FIRST_MIN
#define CC2420_FIRST_MIN 10
#define CC2420_FIRST_MAX 40
#endif
#ifndef CC2420_AGAIN_MIN
#define CC2420_AGAIN_MIN 10
#define CC2420_AGAIN_MAX 80
#endif

/** Times of start-of-frame delimiters that can wait for their frames. The chip holds 128 bytes: three of our
 * longest frames. */
#ifndef CC2420_TIMES
#define CC2420_TIMES 8
#endif
