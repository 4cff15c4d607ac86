/* The agent's hot loop over job_stats: cut a buffer into records, hash each, read the regular ones.
 *
 * Loaded by ctypes (scan.py); plain C without Python's headers. Meaning is defined by core's parse_record:
 * a record that holds anything but the common layout is marked irregular here and read there, so the two
 * can differ in speed only. tests/unit/agent/test_scan.py compares them over mutated text.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

#define RECORD "- job_id:"
#define ID_COLUMN 19
#define ID_MAX 31
#define SECONDS_MAX 9000000000

/* A mixing hash over eight bytes at a time; the seed is random per process, so nobody can aim at a collision. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash(const char *text, long size, uint64_t seed)
{
    uint64_t state = seed ^ mix((uint64_t)size ^ 0x9e3779b97f4a7c15ull, 0xd1342543de82ef95ull), word;
    for (; size >= 8; text += 8, size -= 8) {
        memcpy(&word, text, 8);
        state = mix(state ^ word, 0xa0761d6478bd642full) + 0x8ebc6af09c88c6e3ull;
    }
    word = 0;
    memcpy(&word, text, (size_t)size);
    return mix(mix(state ^ word, 0xe7037ed1a0b428dbull), seed | 1);
}

static const char *next_record(const char *at, const char *end)
{
    const char *found = memmem(at, (size_t)(end - at), "\n" RECORD, sizeof "\n" RECORD - 1);
    return found ? found + 1 : end;
}

/* Fill start[] and hashes[] for each record of the buffer; start[n] is where the last one ends.
 * Unless this is the end of the file, the last two stay for the next call: they may go on. Returns n. */
long harvest_split(const char *text, long size, int final, uint64_t seed, int64_t *start, uint64_t *hashes, long room)
{
    const char *end = text + size, *at = text;
    long n = 0;
    if (size < (long)sizeof RECORD - 1 || memcmp(text, RECORD, sizeof RECORD - 1) != 0)
        at = next_record(text, end);
    while (at < end && n < room) {
        const char *next = next_record(at, end);
        /* too short to be a record: the first part of an id with a newline (core's split_records) */
        const char *line_end;
        while (next < end && (line_end = memchr(next, '\n', (size_t)(end - next))) &&
               line_end - at <= ID_COLUMN + ID_MAX)
            next = next_record(next, end);
        start[n++] = at - text;
        at = next;
    }
    start[n] = at - text;
    if (!final && at == end)
        n = n > 2 ? n - 2 : 0;
    for (long i = 0; i < n; i++)
        hashes[i] = hash(text + start[i], start[i + 1] - start[i], seed);
    return n;
}

struct names { /* the counters known so far: "name\0unit\0" after each other */
    const char *text;
    const int64_t *at, *size;
    int64_t count;
};

struct columns { /* what is read; -1 is "not printed" */
    int64_t *id_end, *snapshot, *whole, *start, *rows, *regular; /* per record asked for */
    int64_t *code, *samples, *minimum, *maximum, *sum;           /* per counter */
    int64_t *hist_row, *hist_power, *hist_count;                 /* per histogram bucket */
    int64_t room, hist_room, used, hist_used;
};

static int literal(const char **at, const char *end, const char *want, long size)
{
    if (end - *at < size || memcmp(*at, want, (size_t)size) != 0)
        return 0;
    *at += size;
    return 1;
}
#define LITERAL(want) literal(&at, end, want, sizeof want - 1)

static void blanks(const char **at, const char *end)
{
    while (*at < end && **at == ' ')
        ++*at;
}

/* At most most digits; their count, 0 if there is none or too many. */
static int number(const char **at, const char *end, int most, int64_t *value)
{
    const char *p = *at;
    int64_t v = 0;
    while (p < end && (unsigned)(*p - '0') < 10 && p - *at <= most)
        v = (int64_t)((uint64_t)v * 10 + (uint64_t)(*p++ - '0'));
    int digits = (int)(p - *at);
    *at = p;
    *value = v;
    return digits > most ? 0 : digits;
}

/* "  key:   S[.NNNNNNNNN secs.nsecs]\n", or 2.15.0's "key   : S.NNNNNNNNN secs.nsecs\n" at column 0. */
static int time_line(const char **line, const char *end, const char *key, long size, int64_t *value, int64_t *whole)
{
    const char *at = *line;
    int64_t seconds, fraction = 0;
    blanks(&at, end);
    int indented = at - *line;
    if ((indented != 0 && indented != 2) || !literal(&at, end, key, size))
        return 0;
    blanks(&at, end);
    if (!LITERAL(":"))
        return 0;
    blanks(&at, end);
    if (indented && at - *line != ID_COLUMN)
        return -1;
    if (!number(&at, end, 10, &seconds) || seconds > SECONDS_MAX)
        return -1;
    *whole = !LITERAL(".");
    if (!*whole && (number(&at, end, 9, &fraction) != 9 || !LITERAL(" secs.nsecs")))
        return -1;
    if (!LITERAL("\n"))
        return -1;
    *value = seconds * 1000000000 + fraction;
    *line = at;
    return 1;
}

static int counter_value(const char **line, const char *end, const char *key, long size, int64_t *value)
{
    const char *at = *line;
    if (!literal(&at, end, key, size))
        return 0;
    blanks(&at, end);
    if (!number(&at, end, 18, value))
        return 0;
    *line = at;
    return 1;
}
#define VALUE(key, column) counter_value(&at, end, key, sizeof key - 1, column)

/* The bucket "512K" as the power of two that it is, or -1. */
static int power_of(int64_t label, char unit)
{
    int power = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
    if (label < 1 || label > 512 || (label & (label - 1)) != 0)
        return -1;
    power += __builtin_ctzll((uint64_t)label);
    return power < 32 ? power : -1;
}

static int histogram(const char **line, const char *end, struct columns *out, int64_t row)
{
    const char *at = *line;
    int64_t label, count;
    while (at < end && *at != '0' && number(&at, end, 3, &label)) {
        char unit = at < end ? *at : 0;
        int power = power_of(label, unit);
        at += unit == 'K' || unit == 'M' || unit == 'G';
        if (power < 0 || !VALUE(": ", &count) || out->hist_used == out->hist_room)
            return 0;
        out->hist_row[out->hist_used] = row;
        out->hist_power[out->hist_used] = power;
        out->hist_count[out->hist_used++] = count;
        if (!LITERAL(", "))
            break;
    }
    blanks(&at, end);
    if (!LITERAL("}"))
        return 0;
    *line = at;
    return 1;
}

/* Find "name" + "unit" among the known counters; the likely one is tried first, as records look alike. */
static int64_t code_of(const struct names *known, int64_t likely, const char *name, long name_size, const char *unit,
                       long unit_size)
{
    for (int64_t tried = 0, code = likely; tried < known->count; tried++, code++) {
        if (code >= known->count)
            code = 0;
        const char *text = known->text + known->at[code];
        if (known->size[code] == name_size + unit_size + 2 && !memcmp(text, name, (size_t)name_size) &&
            !text[name_size] && !memcmp(text + name_size + 1, unit, (size_t)unit_size))
            return code;
    }
    return -1;
}

static int counter_line(const char **line, const char *end, const struct names *known, int64_t *likely,
                        struct columns *out)
{
    const char *at = *line, *name, *unit;
    int64_t row = out->used;
    if (row == out->room || !LITERAL("  "))
        return 0;
    name = at;
    if (!(at = memchr(name, ':', (size_t)(end - name))) || at - name > 64)
        return 0;
    long name_size = at++ - name;
    blanks(&at, end);
    if (!VALUE("{ samples:", &out->samples[row]) || !LITERAL(", unit:"))
        return 0;
    blanks(&at, end);
    unit = at;
    while (at < end && *at >= 'a' && *at <= 'z')
        at++;
    int64_t code = code_of(known, *likely, name, name_size, unit, at - unit);
    if (code < 0)
        return 0;
    out->code[row] = code;
    out->minimum[row] = out->maximum[row] = out->sum[row] = -1;
    if (VALUE(", min:", &out->minimum[row])) {
        if (!VALUE(", max:", &out->maximum[row]) || !VALUE(", sum:", &out->sum[row]))
            return 0;
        if (LITERAL(", sumsq:")) {
            int64_t unused;
            blanks(&at, end);
            if (!number(&at, end, 40, &unused))
                return 0;
        }
        if (LITERAL(", hist: { ") && !histogram(&at, end, out, row))
            return 0;
    }
    if (!LITERAL(" }\n"))
        return 0;
    *line = at;
    *likely = code + 1;
    out->used++;
    return 1;
}

static int record(const char *at, const char *end, const struct names *known, struct columns *out, long n)
{
    const char *begin = at;
    int64_t unused, unused_whole, likely = 0;
    if (end - at < ID_COLUMN || memcmp(at, RECORD "          ", ID_COLUMN) != 0)
        return 0;
    if (!(at = memchr(at, '\n', (size_t)(end - at))))
        return 0;
    out->id_end[n] = at++ - begin;
    if (time_line(&at, end, "snapshot_time", 13, &out->snapshot[n], &out->whole[n]) != 1)
        return 0;
    out->start[n] = 0;
    if (time_line(&at, end, "start_time", 10, &out->start[n], &unused_whole) < 0)
        return 0;
    if (time_line(&at, end, "elapsed_time", 12, &unused, &unused_whole) < 0)
        return 0;
    int64_t first = out->used, most = 0;
    while (at < end) {
        if (!counter_line(&at, end, known, &likely, out))
            return 0;
        if (likely > most) {
            most = likely;
            continue;
        }
        for (int64_t row = first; row < out->used - 1; row++) /* not in the usual order: is it there already? */
            if (out->code[row] == likely - 1)
                return 0;
    }
    return 1;
}

/* Read the n records that start[] and end[] bound; an irregular one leaves nothing in the columns of counters. */
void harvest_parse(const char *text, const int64_t *start, const int64_t *end, long n, const struct names *known,
                   struct columns *out)
{
    for (long i = 0; i < n; i++) {
        int64_t used = out->used, hist_used = out->hist_used;
        out->regular[i] = record(text + start[i], text + end[i], known, out, i);
        if (!out->regular[i]) {
            out->used = used;
            out->hist_used = hist_used;
        }
        out->rows[i] = out->used - used;
    }
}
