#ifndef BOARD_AVR_INTERRUPT_H
#define BOARD_AVR_INTERRUPT_H

#define ISR(vector) void vector(void)

void TIMER0_OVF_vect(void);
void TIMER0_COMP_vect(void);

#endif
