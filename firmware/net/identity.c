#include "identity.h"

#include "guarded_u16.h"

static guarded_u16_t own_id;
static guarded_u16_t own_boots;

void identity_start(uint16_t id, uint16_t boots)
{
    guarded_u16_set(&own_id, id);
    guarded_u16_set(&own_boots, boots);
}

uint16_t identity_id(void)
{
    return guarded_u16_get(&own_id);
}

uint16_t identity_boots(void)
{
    return guarded_u16_get(&own_boots);
}
