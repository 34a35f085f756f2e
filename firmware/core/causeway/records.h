/** The messages of fixed form: beacon, heard, health, status, downlink, arrived, taken, idle
 * (docs/reference/formats.md says what each member means).
 *
 * For each there is a struct with a member for each integer, and
 *
 *     void cw_beacon_put(uint8_t payload[CAUSEWAY_BEACON_BYTES], const cw_beacon_t *beacon);
 *     bool cw_beacon_get(const uint8_t *payload, uint8_t length, cw_beacon_t *beacon);
 *
 * `get` returns false and reads nothing unless the length is exactly right. Places come from the generated
 * header. Struct, put and get are made from the lists of members below.
 */
#ifndef CW_RECORDS_H
#define CW_RECORDS_H

#include "bytes.h"
#include "causeway_layout.h"
#include "types.h"

/* clang-format off */
#define CW_BEACON(U8, I8, U16, U32) \
    U16(sender, BEACON_SENDER) U16(root, BEACON_ROOT) U8(epoch, BEACON_EPOCH) U16(sequence, BEACON_SEQUENCE) \
    U8(hops, BEACON_HOPS) U8(flags, BEACON_FLAGS) U8(error, BEACON_ERROR) U32(time, BEACON_TIME)

#define CW_HEARD(U8, I8, U16, U32) \
    U16(gateway, HEARD_GATEWAY) U8(epoch, HEARD_EPOCH) U8(sequence, HEARD_SEQUENCE) U16(lost, HEARD_LOST) \
    U8(flags, HEARD_FLAGS) I8(rssi, HEARD_RSSI) U8(lqi, HEARD_LQI) U16(check, HEARD_CHECK) \
    U32(time, HEARD_TIME)

#define CW_HEALTH(U8, I8, U16, U32) \
    U16(source, HEALTH_SOURCE) U32(time, HEALTH_TIME) U8(epoch, HEALTH_EPOCH) U8(flags, HEALTH_FLAGS) \
    U16(boots, HEALTH_BOOTS) U32(layout, HEALTH_LAYOUT) U16(sent, HEALTH_SENT) \
    U16(received, HEALTH_RECEIVED) U16(late, HEALTH_LATE) U16(relayed, HEALTH_RELAYED) \
    U16(duplicates, HEALTH_DUPLICATES) U16(bounds, HEALTH_BOUNDS) U8(battery, HEALTH_BATTERY) \
    U8(hops, HEALTH_HOPS)

#define CW_STATUS(U8, I8, U16, U32) \
    U16(gateway, STATUS_GATEWAY) U32(time, STATUS_TIME) U8(epoch, STATUS_EPOCH) U8(boots, STATUS_BOOTS) \
    U16(heard, STATUS_HEARD) U16(forwarded, STATUS_FORWARDED) U16(radio_crc, STATUS_RADIO_CRC) \
    U16(radio_overrun, STATUS_RADIO_OVERRUN) U16(foreign, STATUS_FOREIGN) U16(up_full, STATUS_UP_FULL) \
    U16(line_crc, STATUS_LINE_CRC) U16(line_refused, STATUS_LINE_REFUSED) U16(down_sent, STATUS_DOWN_SENT) \
    U16(down_full, STATUS_DOWN_FULL)

#define CW_DOWNLINK(U8, I8, U16, U32) \
    U16(target, DOWNLINK_TARGET) U16(sequence, DOWNLINK_SEQUENCE) U8(hops, DOWNLINK_HOPS) \
    U8(command, DOWNLINK_COMMAND) U32(argument, DOWNLINK_ARGUMENT)

#define CW_ARRIVED(U8, I8, U16, U32) U16(source, ARRIVED_SOURCE) U16(number, ARRIVED_NUMBER)

#define CW_TAKEN(U8, I8, U16, U32) \
    U16(first, TAKEN_FIRST) U16(second, TAKEN_SECOND) U16(third, TAKEN_THIRD) U16(fourth, TAKEN_FOURTH) \
    U16(fifth, TAKEN_FIFTH) U16(sixth, TAKEN_SIXTH) U16(seventh, TAKEN_SEVENTH) U16(eighth, TAKEN_EIGHTH)

#define CW_IDLE(U8, I8, U16, U32) \
    U16(gateway, IDLE_GATEWAY) U8(epoch, IDLE_EPOCH) U8(flags, IDLE_FLAGS) U32(time, IDLE_TIME)
/* clang-format on */

/* Flags and values of members. */
/* With a key beacons, heard and idle records have the round of their time in the upper five bits of their
 * flags. */
enum { CW_BEACON_IN_SYNC = 1, CW_BEACON_ROUND = 3, CW_BEACON_ROUND_MASK = 0xF8 };
enum { CW_HEARD_IN_SYNC = 1, CW_HEARD_ROOT = 2, CW_HEARD_LQI_KNOWN = 4 };
enum { CW_HEALTH_IN_SYNC = 1, CW_HEALTH_TWO_ROOTS = 2, CW_HEALTH_START = 2 };
enum { CW_COMMAND_RATE = 1, CW_COMMAND_REPORT = 2, CW_COMMAND_BLINK = 3, CW_COMMAND_REBOOT = 4 };
#define CW_TARGET_ALL 0xFFFFU

#define CW_MEMBER_U8(name, place) uint8_t name;
#define CW_MEMBER_I8(name, place) int8_t name;
#define CW_MEMBER_U16(name, place) uint16_t name;
#define CW_MEMBER_U32(name, place) uint32_t name;

#define CW_PUT_8(name, place) payload[CAUSEWAY_##place##_AT] = (uint8_t)record->name;
#define CW_PUT_U16(name, place) cw_put16(payload + CAUSEWAY_##place##_AT, record->name);
#define CW_PUT_U32(name, place) cw_put32(payload + CAUSEWAY_##place##_AT, record->name);

#define CW_GET_U8(name, place) record->name = payload[CAUSEWAY_##place##_AT];
#define CW_GET_I8(name, place) record->name = (int8_t)payload[CAUSEWAY_##place##_AT];
#define CW_GET_U16(name, place) record->name = cw_get16(payload + CAUSEWAY_##place##_AT);
#define CW_GET_U32(name, place) record->name = cw_get32(payload + CAUSEWAY_##place##_AT);

#define CW_RECORD(lower, UPPER)                                                                         \
    typedef struct {                                                                                    \
        CW_##UPPER(CW_MEMBER_U8, CW_MEMBER_I8, CW_MEMBER_U16, CW_MEMBER_U32)                            \
    } cw_##lower##_t;                                                                                   \
    static inline void cw_##lower##_put(uint8_t payload[CAUSEWAY_##UPPER##_BYTES],                      \
                                        const cw_##lower##_t *record)                                   \
    {                                                                                                   \
        CW_##UPPER(CW_PUT_8, CW_PUT_8, CW_PUT_U16, CW_PUT_U32)                                          \
    }                                                                                                   \
    static inline bool cw_##lower##_get(const uint8_t *payload, uint8_t length, cw_##lower##_t *record) \
    {                                                                                                   \
        bool whole = length == CAUSEWAY_##UPPER##_BYTES;                                                \
        if (!whole)                                                                                     \
            return whole;                                                                               \
        CW_##UPPER(CW_GET_U8, CW_GET_I8, CW_GET_U16, CW_GET_U32);                                       \
        return whole;                                                                                   \
    }

CW_RECORD(beacon, BEACON)
CW_RECORD(heard, HEARD)
CW_RECORD(health, HEALTH)
CW_RECORD(status, STATUS)
CW_RECORD(downlink, DOWNLINK)
CW_RECORD(arrived, ARRIVED)
CW_RECORD(taken, TAKEN)
CW_RECORD(idle, IDLE)

#endif
