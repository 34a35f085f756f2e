/** What a kind of node adds to the loop of net/node.c: net/mote/ for the apps of motes, apps/gateway/ for the
 * gateway. A role also defines radio_on_heard(), outbox_before_send() and outbox_on_done(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "schedule.h"

/** Whether such a node sleeps between the windows of a schedule. A constant, so that each image has only the
 * code that it needs. */
extern const bool role_sleeps;

/** Whether a node of this kind may have this id. */
bool role_accepts(uint16_t id);

/** Start. All layers run, and have heard nothing yet. `now` is the local time at which time sync was
 * started. */
void role_start(uint32_t now);

/** The role's turn: after the radio's, before the outbox's. */
void role_step(uint8_t events);

/** The local time by which role_step() must be called; at most half a minute ahead. */
uint32_t role_next(uint32_t now);

/** Whether the role's own state is possible. */
bool role_sound(uint32_t now);

/** The LEDs that the role lights. */
uint8_t role_leds(void);

/** A new epoch has begun: all older stamps are void. A root has stored the epoch. */
void role_on_epoch(uint8_t epoch);
