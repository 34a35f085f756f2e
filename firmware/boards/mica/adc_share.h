/** The ADC shared between adc_start() of hal/board.h and a radio that needs conversions of its own (MICA2's
 * RSSI).
 *
 * The radio's conversion comes first: it starts at once when the converter is idle, else right after the
 * conversion that runs; one of adc_start() that has not begun yet waits. adc_start() takes no notice: it
 * still posts EVENT_ADC when its own value is there.
 */
#pragma once

#include <stdint.h>

/** Convert `channel` (0..7, reference AVCC) for the radio; adc_share_done() follows within two conversions.
 * One request at a time: a second one before that replaces the first. From an interrupt, or from the loop
 * with interrupts off. */
void adc_share_request(uint8_t channel);

/** What the board of such a radio defines: called from the ADC's interrupt with 0..1023. */
void adc_share_done(uint16_t value);
