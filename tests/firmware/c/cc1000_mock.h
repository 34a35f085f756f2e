/* The pins of an imagined CC1000, for the driver's tests on the host: see cc1000_host.c. */
#ifndef CC1000_MOCK_H
#define CC1000_MOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CC1000_ROM

void mock_edge(char wire, bool high);
bool mock_pdata(void);
void mock_lock(bool locked);

static inline void cc1000_pale(bool high)
{
    mock_edge('L', high);
}

static inline void cc1000_pclk(bool high)
{
    mock_edge('C', high);
}

static inline void cc1000_pdata(bool high)
{
    mock_edge('D', high);
}

static inline void cc1000_pdata_input(bool input)
{
    mock_edge('I', input);
}

static inline bool cc1000_pdata_read(void)
{
    return mock_pdata();
}

static inline uint8_t cc1000_lock(void)
{
    mock_lock(true);
    return 0;
}

static inline void cc1000_unlock(uint8_t was)
{
    (void)was;
    mock_lock(false);
}

#endif
