/** The CC2420's registers, strobes and bits, as far as the driver uses them. */
#pragma once

/* The first byte of an access: an address, plain for a write or a strobe. The chip answers with its status
 * byte. */
enum {
    CC2420_READ = 0x40,
    /* | address bits 6..0; the second byte has the bank in bits 7 and 6 and, in bit 5, read only */
    CC2420_RAM = 0x80,
    CC2420_BANK_TXFIFO = 0x00, /* second byte of a RAM access: the transmit FIFO, written */
};

/* Strobes: only the address. */
enum {
    CC2420_SNOP = 0x00,
    CC2420_SXOSCON = 0x01,
    CC2420_SRXON = 0x03,
    CC2420_STXON = 0x04,
    CC2420_STXONCCA = 0x05,
    CC2420_SRFOFF = 0x06,
    CC2420_SXOSCOFF = 0x07,
    CC2420_SFLUSHRX = 0x08,
    CC2420_SFLUSHTX = 0x09,
};

/* Registers of 16 bits, most significant byte first; and the FIFOs. */
enum {
    CC2420_MDMCTRL0 = 0x11,
    CC2420_MDMCTRL1 = 0x12,
    CC2420_TXCTRL = 0x15,
    CC2420_RXCTRL1 = 0x17,
    CC2420_FSCTRL = 0x18,
    CC2420_SECCTRL0 = 0x19,
    CC2420_IOCFG0 = 0x1C,
    CC2420_FSMSTATE = 0x2C,
    CC2420_TXFIFO = 0x3E,
    CC2420_RXFIFO = 0x3F,
};

/* Their values. */
enum {
    CC2420_MDMCTRL0_VALUE = 0x02E2, /* no address recognition, no acknowledgements; CCA mode 3 (quiet and no
                                       frame), CRC by the chip, three bytes of preamble beyond the first */
    CC2420_MDMCTRL1_VALUE = 0x0500, /* correlation threshold 20 */
    /* the reset value with the filter's bias current as the data sheet recommends */
    CC2420_RXCTRL1_VALUE = 0x2A56,
    /* the reset value with the receive FIFO unprotected: we do not use the chip's security */
    CC2420_SECCTRL0_VALUE = 0x01C4,
    CC2420_IOCFG0_VALUE = 0x007F,       /* pins active high; FIFOP for whole frames only */
    CC2420_TXCTRL_VALUE = 0xA0E0,       /* | power, 0..31 */
    CC2420_FSCTRL_VALUE = 0x4000 | 357, /* channel 11; five more for each further one */
};

/* The status byte. */
enum {
    CC2420_STATUS_XOSC = 1 << 6,      /* the crystal oscillator is stable */
    CC2420_STATUS_UNDERFLOW = 1 << 5, /* the transmit FIFO ran empty in a frame */
    CC2420_STATUS_TX_ACTIVE = 1 << 3, /* sending, or about to */
};

/* FSMSTATE while a frame comes in, from its delimiter to its end. */
enum { CC2420_FSM_MASK = 0x3F, CC2420_FSM_RX_FRAME = 16, CC2420_FSM_RX_FRAME_TOO = 40 };

enum {
    CC2420_LENGTH_LIMIT = 127, /* of a frame: bit 7 of a length byte is never set */
    CC2420_CRC_OK = 0x80, /* in a received frame's last byte; the rest is the correlation, our link quality */
    CC2420_RSSI_OFFSET = -45, /* from the byte before it to dBm */
};
