#include "cc1000_control.h"

#include "cc1000_board.h"
#include "cc1000_const.h"

/** One bit to the chip: it takes PDATA at the falling edge. */
static inline void bit_out(bool bit)
{
    cc1000_pdata(bit);
    cc1000_pclk(false);
    cc1000_pclk(true);
}

static void byte_out(uint8_t byte)
{
    for (uint8_t mask = 0x80; mask != 0; mask >>= 1)
        bit_out((byte & mask) != 0);
}

void cc1000_write(uint8_t address, uint8_t value)
{
    cc1000_pale(false);
    byte_out((uint8_t)(address << 1 | 1));
    cc1000_pale(true);
    byte_out(value);
    cc1000_pdata(true);
}

uint8_t cc1000_read(uint8_t address)
{
    uint8_t value = 0;
    cc1000_pale(false);
    byte_out((uint8_t)(address << 1));
    cc1000_pdata_input(true);
    cc1000_pale(true);
    for (uint8_t bit = 0; bit < 8; bit++) {
        cc1000_pclk(false);
        value = (uint8_t)(value << 1 | (cc1000_pdata_read() ? 1 : 0));
        cc1000_pclk(true);
    }
    cc1000_pdata_input(false);
    cc1000_pdata(true);
    return value;
}

static void configure(void)
{
    static const CC1000_ROM uint8_t settings[][2] = {
        {CC1000_PA_POW, CC1000_PA_POW_OFF},
        {CC1000_FREQ_2A, CC1000_FREQ_A >> 16 & 0xFF},
        {CC1000_FREQ_1A, CC1000_FREQ_A >> 8 & 0xFF},
        {CC1000_FREQ_0A, CC1000_FREQ_A & 0xFF},
        {CC1000_FREQ_2B, CC1000_FREQ_B >> 16 & 0xFF},
        {CC1000_FREQ_1B, CC1000_FREQ_B >> 8 & 0xFF},
        {CC1000_FREQ_0B, CC1000_FREQ_B & 0xFF},
        {CC1000_FSEP1, CC1000_FSEP >> 8},
        {CC1000_FSEP0, CC1000_FSEP & 0xFF},
        {CC1000_FRONT_END, CC1000_FRONT_END_RSSI},
        {CC1000_PLL, CC1000_PLL_VALUE},
        {CC1000_LOCK, CC1000_LOCK_VIOLATION},
        {CC1000_MODEM2, CC1000_MODEM2_VALUE},
        {CC1000_MODEM1, CC1000_MODEM1_VALUE},
        {CC1000_MODEM0, CC1000_MODEM0_VALUE},
        {CC1000_MATCH, CC1000_MATCH_VALUE},
        {CC1000_FSCTRL, CC1000_FSCTRL_VALUE},
        {CC1000_TEST4, CC1000_TEST4_VALUE},
    };

    for (uint8_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        cc1000_write(settings[i][0], settings[i][1]);
}

/** Calibrate the PLL for the frequency and current that are set. False when the chip does not say that it is
 * done. */
static bool calibrate(void)
{
    bool done = false;
    cc1000_write(CC1000_CAL, CC1000_CAL_START | CC1000_CAL_IDLE);
    for (uint16_t polls = 0; !done && polls < CC1000_CAL_POLLS; polls++) {
        uint8_t cal;
        cc1000_board_wait(CC1000_CAL_POLL_US);
        cal = cc1000_read(CC1000_CAL);
        done = (cal & CC1000_CAL_COMPLETE) != 0 && cal != 0xFF; /* all ones: no chip pulls PDATA down */
    }
    cc1000_write(CC1000_CAL, CC1000_CAL_IDLE);
    return done;
}

/* For receiving, then for sending with the amplifier off. */
bool cc1000_control_calibrate(void)
{
    bool done;
    cc1000_control_receive();
    done = calibrate();
    cc1000_write(CC1000_MAIN, CC1000_MAIN_TRANSMIT);
    cc1000_write(CC1000_CURRENT, CC1000_CURRENT_TRANSMIT);
    cc1000_write(CC1000_PA_POW, CC1000_PA_POW_OFF);
    done = done && calibrate();
    cc1000_control_receive();
    return done;
}

bool cc1000_control_locked(void)
{
    return (cc1000_read(CC1000_LOCK) & CC1000_LOCK_CONTINUOUS) != 0;
}

static bool locks(void)
{
    cc1000_board_wait(CC1000_PLL_US);
    return cc1000_control_locked();
}

bool cc1000_control_start(void)
{
    bool done;
    cc1000_write(CC1000_MAIN, CC1000_MAIN_RESET);
    cc1000_write(CC1000_MAIN, CC1000_MAIN_CORE_ON);
    cc1000_board_wait(CC1000_CRYSTAL_US);
    configure();
    cc1000_write(CC1000_MAIN, CC1000_MAIN_BIAS_ON);
    cc1000_board_wait(CC1000_BIAS_US);
    done = cc1000_control_calibrate();
    /* A calibration may miss: once more then. If that does not help either, listen all the same: a chip that
     * is really out of lock gives no good frames, while one whose lock bit is wrong does. */
    if (done && !locks())
        done = cc1000_control_calibrate();
    if (!done)
        cc1000_control_stop();
    return done;
}

void cc1000_control_stop(void)
{
    cc1000_write(CC1000_PA_POW, CC1000_PA_POW_OFF);
    cc1000_write(CC1000_MAIN, CC1000_MAIN_OFF);
}

void cc1000_control_start_crystal(void)
{
    cc1000_write(CC1000_MAIN, CC1000_MAIN_CORE_ON);
}

void cc1000_control_start_bias(void)
{
    cc1000_write(CC1000_MAIN, CC1000_MAIN_BIAS_ON);
}

/* A register that a chip without supply would have forgotten: all bands give it the same value. */
bool cc1000_control_kept(void)
{
    return cc1000_read(CC1000_TEST4) == CC1000_TEST4_VALUE;
}

/* Whether it worked, the next wake sees by the lock. */
void cc1000_control_refresh(void)
{
    cc1000_control_start_crystal();
    cc1000_board_wait(CC1000_CRYSTAL_US);
    cc1000_control_start_bias();
    cc1000_board_wait(CC1000_BIAS_US);
    (void)cc1000_control_calibrate();
    cc1000_control_stop();
}

void cc1000_control_receive(void)
{
    cc1000_write(CC1000_CURRENT, CC1000_CURRENT_RECEIVE);
    cc1000_write(CC1000_PA_POW, CC1000_PA_POW_OFF);
    cc1000_write(CC1000_MAIN, CC1000_MAIN_RECEIVE);
}

void cc1000_control_prepare(void)
{
    cc1000_write(CC1000_MAIN, CC1000_MAIN_TRANSMIT);
    cc1000_write(CC1000_CURRENT, CC1000_CURRENT_TRANSMIT);
    cc1000_board_wait(CC1000_PLL_US);
}

void cc1000_control_transmit(void)
{
    cc1000_write(CC1000_PA_POW, CC1000_CONF_PA_POW);
    cc1000_board_wait(CC1000_PA_US);
}
