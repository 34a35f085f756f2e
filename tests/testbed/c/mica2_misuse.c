/* A program for a MICA2 that uses its radio's wires in one wrong way, MISUSE, or (0) in the right way. */
#include <util/delay_basic.h>

#include "chips/cc1000/cc1000_board.h"
#include "chips/cc1000/cc1000_const.h"
#include "chips/cc1000/cc1000_control.h"

enum { LEGAL, SEND_UNDRIVEN, RECEIVE_DRIVEN, READ_DRIVEN };

void cc1000_board_wait(uint16_t us)
{
    for (; us > 0; us--)
        _delay_loop_2(2);
}

/* An access in which PDATA stays as it is: high, the first bit of a write to a register that is not there;
 * low, of a read. */
static void access(bool pdata)
{
    cc1000_pdata(pdata);
    cc1000_pale(false);
    for (uint8_t i = 0; i < 9; i++) {
        cc1000_pale(i == 8);
        cc1000_pclk(false);
        cc1000_pclk(true);
    }
    cc1000_pdata(true);
}

int main(void)
{
    PORTD |= MICA2_PALE | MICA2_PCLK | MICA2_PDATA;
    DDRD |= MICA2_PALE | MICA2_PCLK | MICA2_PDATA;
    (void)cc1000_control_start();
    access(MISUSE != READ_DRIVEN);
    SPCR = 1 << SPE;
    if (MISUSE == RECEIVE_DRIVEN)
        DDRB |= MICA2_MISO;
    cc1000_board_wait(3000);
    cc1000_control_prepare();
    if (MISUSE != SEND_UNDRIVEN)
        DDRB |= MICA2_MISO;
    cc1000_control_transmit();
    cc1000_board_wait(3000);
    DDRB &= (uint8_t)~MICA2_MISO;
    cc1000_control_receive();
    for (;;) {
    }
}
