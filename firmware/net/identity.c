#include "identity.h"

#include "kept.h"

static kept_t own_id;
static kept_t own_boots;

void identity_start(uint16_t id, uint16_t boots)
{
    kept_set(&own_id, id);
    kept_set(&own_boots, boots);
}

uint16_t identity_id(void)
{
    return kept_get(&own_id);
}

uint16_t identity_boots(void)
{
    return kept_get(&own_boots);
}
