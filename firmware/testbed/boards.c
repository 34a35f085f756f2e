#include "boards.h"

#include <string.h>

extern const board_t board_micaz, board_mica2;

static const board_t *const boards[] = {&board_micaz, &board_mica2};

const char *const board_names = "there are boards micaz and mica2";

const board_t *board_named(const char *name)
{
    for (size_t i = 0; i < sizeof boards / sizeof boards[0]; i++)
        if (strcmp(boards[i]->name, name) == 0)
            return boards[i];
    return NULL;
}
