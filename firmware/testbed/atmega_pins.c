/* Pins whose level is found out when the program looks. */
#include <simavr/avr_ioport.h>
#include <stdlib.h>

#include "atmega_private.h"

typedef struct {
    atmega_look_t *look;
    void *param;
    avr_io_read_t library_read;
    void *library_param;
} looked_at_t;

static uint8_t on_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    looked_at_t *port = param;
    port->look(port->param);
    return port->library_read(avr, address, port->library_param);
}

void atmega_before_read(atmega_t *mcu, char port, atmega_look_t *look, void *param)
{
    static const avr_io_addr_t registers[] = {REG_PINA, REG_PINB, REG_PINC, REG_PIND,
                                              REG_PINE, REG_PINF, REG_PING};
    looked_at_t *looked_at = malloc(sizeof *looked_at);
    if (looked_at == NULL)
        abort();
    avr_io_addr_t io = AVR_DATA_TO_IO(registers[port - 'A']);
    *looked_at = (looked_at_t){look, param, mcu->avr->io[io].r.c, mcu->avr->io[io].r.param};
    mcu->avr->io[io].r.c = on_read;
    mcu->avr->io[io].r.param = looked_at;
}
