/** What the unit tests are written with; the same on the host and on the emulated ATmega128.
 *
 *     #include "check.h"
 *
 *     static void crc_of_nothing_is_zero(void)
 *     {
 *         CHECK_EQUAL(0, cw_crc(0, bytes, 0));
 *     }
 *
 *     int main(void)
 *     {
 *         check_start();
 *         RUN(crc_of_nothing_is_zero);
 *         return check_end();
 *     }
 *
 * One program per folder firmware/test/test_NAME. A deployment.toml in that folder is what it is built for;
 * else platformio.ini says. A failed check is reported and its test goes on;
 * firmware/test/test_custom_runner.py reads the report.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __AVR__
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/pgmspace.h>
#include <avr/sleep.h>
#define CHECK_TEXT(text) PSTR(text) /* texts stay in flash: 4 KB of RAM are the tested code's */
#define CHECK_SAY(...) printf_P(__VA_ARGS__)
#define CHECK_STRING "%S"
#else
#define CHECK_TEXT(text) (text)
#define CHECK_SAY(...) printf(__VA_ARGS__)
#define CHECK_STRING "%s"
#endif

/* Run one test function. */
#define RUN(test) check_run(CHECK_TEXT(#test), test)

#define CHECK(condition) check_that((condition), CHECK_TEXT(#condition), __LINE__)
#define CHECK_EQUAL(expected, actual) \
    check_equal((unsigned long)(expected), (unsigned long)(actual), CHECK_TEXT(#actual), __LINE__)
#define CHECK_BYTES(expected, actual, size) \
    check_bytes((expected), (actual), (size), CHECK_TEXT(#actual), __LINE__)

static unsigned check_tests, check_bad_tests, check_bad;

#ifdef __AVR__
static int check_put(char byte, FILE *stream)
{
    (void)stream;
    while (!(UCSR0A & (1 << UDRE0))) {
    }
    UDR0 = (uint8_t)byte;
    return 0;
}

static FILE check_line = FDEV_SETUP_STREAM(check_put, NULL, _FDEV_SETUP_WRITE);
#endif

/** First thing in main(). */
static inline void check_start(void)
{
#ifdef __AVR__
    UBRR0L = 0;
    UCSR0A = 1 << U2X0;
    UCSR0B = 1 << TXEN0;
    stdout = &check_line;
#else
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
#endif
}

/** Last thing in main(): its return value. */
static inline int check_end(void)
{
    CHECK_SAY(CHECK_TEXT("check: %u tests, %u failed\n"), check_tests, check_bad_tests);
#ifdef __AVR__
    /* An AVR that sleeps with interrupts off never wakes: the emulator ends there. */
    while (!(UCSR0A & (1 << UDRE0))) {
    }
    cli();
    sleep_enable();
    sleep_cpu();
#endif
    return check_bad_tests ? 1 : 0;
}

static inline void check_run(const char *name, void (*test)(void))
{
    check_bad = 0;
    check_tests++;
    test();
    if (check_bad)
        check_bad_tests++;
    CHECK_SAY(CHECK_TEXT("check: %u " CHECK_STRING "\n"), check_bad, name);
}

static inline bool check_that(bool good, const char *text, int line)
{
    if (!good) {
        check_bad++;
        CHECK_SAY(CHECK_TEXT("line %d: not so: " CHECK_STRING "\n"), line, text);
    }
    return good;
}

static inline bool check_equal(unsigned long expected, unsigned long actual, const char *text, int line)
{
    if (expected != actual) {
        check_bad++;
        CHECK_SAY(CHECK_TEXT("line %d: " CHECK_STRING " is %ld (0x%lx), expected %ld (0x%lx)\n"), line, text,
                  (long)actual, actual, (long)expected, expected);
    }
    return expected == actual;
}

static inline bool check_bytes(const void *expected, const void *actual, size_t size, const char *text,
                               int line)
{
    const uint8_t *e = expected, *a = actual;

    for (size_t i = 0; i < size; i++) {
        if (e[i] != a[i]) {
            check_bad++;
            CHECK_SAY(CHECK_TEXT("line %d: " CHECK_STRING "[%u] is %02x, expected %02x\n"), line, text,
                      (unsigned)i, a[i], e[i]);
            return false;
        }
    }
    return true;
}
