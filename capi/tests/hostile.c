/* Everything that C may hand in wrongly, at random: handles that were closed, guessed or belong to another thread, NULL, sizes that nothing can have,
 * replies released twice, calls out of callbacks. Each is answered by a status, and the memory goes on.
 *
 *     hostile SEGMENT SEED STEPS
 *
 * What C may not do is not done here: addresses that lead nowhere, and lengths that are longer than what lies there but possible. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "polder_commands.h"

enum { CALLERS = 6, REPLIES = 8, THREADS = 3 };

static polder_memory memory;
/* Handles of all threads, on purpose read by each of them: a word is read whole. */
static uint64_t shared[THREADS][CALLERS];

struct actor {
    unsigned number;
    uint64_t state;
    polder_caller callers[CALLERS];
    const polder_reply *replies[REPLIES];
    long steps, refused;
};

static uint64_t below(struct actor *actor, uint64_t most)
{
    actor->state ^= actor->state << 13;
    actor->state ^= actor->state >> 7;
    actor->state ^= actor->state << 17;
    return actor->state % most;
}

static void fail(const char *what, int status)
{
    fprintf(stderr, "hostile: %s answers %d: %s\n", what, status, polder_message());
    exit(1);
}

/* One of the statuses that there are, and a text to each but the first. */
static polder_status seen(struct actor *actor, polder_status status, const char *what)
{
    actor->steps++;
    if ((int)status < POLDER_OK || status == POLDER_PANIC || status > POLDER_PANIC)
        fail(what, status);
    if (status != POLDER_OK) {
        actor->refused++;
        if (strlen(polder_message()) == 0)
            fail("no text", status);
    }
    return status;
}

static polder_caller some_caller(struct actor *actor)
{
    polder_caller caller;
    switch (below(actor, 12)) {
    case 0: caller.handle = 0; break;
    case 1: caller.handle = below(actor, UINT64_MAX); break;
    case 2: caller.handle = __atomic_load_n(&shared[below(actor, THREADS)][below(actor, CALLERS)], __ATOMIC_RELAXED); break;
    default: caller = actor->callers[below(actor, CALLERS)];
    }
    return caller;
}

static const char *const WORDS[] = {
    "GET", "SET", "INCR", "LPUSH", "RPOP", "XADD", "XREAD", "STREAMS", "$", "*", "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "MULTI",
    "EXEC", "DISCARD", "WATCH", "UNWATCH", "EVAL", "return redis.call('GET', KEYS[1])", "1", "0", "-1", "0.001", "0.002", "9223372036854775807", "k", "l", "z", "s",
    "HELLO", "2", "3", "RESET", "CLIENT", "TRACKING", "ON", "OFF", "REPLY", "SKIP", "LIST", "KILL", "ID", "UNBLOCK", "NO-EVICT", "SELECT", "15", "99", "PING", "ECHO",
    "ZADD", "ZRANGE", "HSET", "HGETALL", "SORT", "MGET", "MSET", "OBJECT", "ENCODING", "CONFIG", "MONITOR", "PUBLISH", "QUIT", "SETRANGE", "SCAN", "",
};

static polder_text some_text(struct actor *actor)
{
    polder_text text;
    switch (below(actor, 20)) {
    case 0: text.bytes = NULL; text.length = below(actor, 3); break;
    case 1: text.bytes = (const uint8_t *)"x"; text.length = SIZE_MAX - below(actor, 3); break;
    case 2: text.bytes = (const uint8_t *)"x"; text.length = (size_t)1 << 63; break;
    default: text = polder_string(WORDS[below(actor, sizeof WORDS / sizeof *WORDS)]);
    }
    return text;
}

static size_t some_count(struct actor *actor, size_t most)
{
    switch (below(actor, 30)) {
    case 0: return SIZE_MAX;
    case 1: return SIZE_MAX / sizeof(polder_text) + 1;
    default: return below(actor, most + 1);
    }
}

static void keep(struct actor *actor, const polder_reply *reply)
{
    const polder_reply **place = &actor->replies[below(actor, REPLIES)];
    if (reply == NULL)
        return;
    /* Released or not: twice at times. */
    if (*place != NULL)
        seen(actor, polder_release(*place), "release");
    *place = reply;
}

/* Reads all of a reply: every pointer leads to something. */
static size_t weigh(const polder_reply *reply)
{
    size_t at, sum = 1;
    for (at = 0; at < reply->length; at++)
        sum += reply->text[at];
    for (at = 0; at < reply->count; at++)
        sum += weigh(&reply->items[at]);
    return sum;
}

static volatile size_t weight;

static void heard(void *context, const polder_reply *message)
{
    struct actor *actor = context;
    const polder_reply *reply = NULL;
    polder_text ping = polder_string("PING");
    weight += weigh(message);
    seen(actor, polder_run(some_caller(actor), 1, &ping, &reply), "run in a callback");
    keep(actor, reply);
}

static void elsewhere(void *context, const polder_reply *message)
{
    (void)context;
    weigh(message);
}

static void shown(void *context, const uint8_t *bytes, size_t length)
{
    size_t at;
    (void)context;
    for (at = 0; bytes && at < length; at++)
        weight += bytes[at];
}

static void step(struct actor *actor)
{
    polder_text words[5];
    polder_caller caller = some_caller(actor);
    const polder_reply *reply = NULL, **out = below(actor, 8) ? &reply : NULL;
    size_t at, count = 0, length;
    int64_t sum;
    int descriptor;
    uint8_t buffer[8];
    for (at = 0; at < 5; at++)
        words[at] = some_text(actor);
    switch (below(actor, 24)) {
    case 0: {
        polder_caller *place = &actor->callers[at = below(actor, CALLERS)];
        if (below(actor, 2))
            seen(actor, polder_close(*place), "close");
        if (seen(actor, polder_open(memory, below(actor, 10) ? place : NULL), "open") == POLDER_OK)
            __atomic_store_n(&shared[actor->number][at], place->handle, __ATOMIC_RELAXED);
        break;
    }
    case 1: seen(actor, polder_close(caller), "close"); break;
    case 2: seen(actor, polder_start(caller, some_count(actor, 5), below(actor, 9) ? words : NULL, out), "start"); break;
    case 18: {
        /* Not for long: with a timeout of ours. */
        polder_text pop[] = {polder_string("BLPOP"), words[0], polder_string("0.001")};
        seen(actor, below(actor, 2) ? polder_start(caller, 3, pop, out) : polder_run(caller, 3, pop, out), "a call that waits");
        break;
    }
    case 3: seen(actor, polder_resume(caller, out), "resume"); break;
    case 4: seen(actor, polder_cancel(caller), "cancel"); break;
    case 5: seen(actor, polder_hear(caller, below(actor, 2), below(actor, 9) ? heard : NULL, actor, below(actor, 2) ? &count : NULL), "hear"); break;
    case 6: seen(actor, polder_descriptor(caller, below(actor, 5) ? &descriptor : NULL), "descriptor"); break;
    case 7: seen(actor, polder_batch_add(caller, some_count(actor, 5), words), "batch_add"); break;
    case 8: seen(actor, polder_batch_run(caller, (int)below(actor, 2), out), "batch_run"); break;
    case 9: seen(actor, polder_batch_clear(caller), "batch_clear"); break;
    case 10: seen(actor, polder_release(below(actor, 2) ? actor->replies[below(actor, REPLIES)] : (const polder_reply *)(uintptr_t)below(actor, UINT64_MAX)), "release"); break;
    case 11: seen(actor, polder_string_copy(caller, words[0], below(actor, 5) ? buffer : NULL, below(actor, sizeof buffer + 1), below(actor, 2) ? &length : NULL), "copy"); break;
    case 12: seen(actor, polder_string_see(caller, words[0], below(actor, 5) ? shown : NULL, NULL), "see"); break;
    case 13: seen(actor, polder_string_put(caller, words[0], words[1]), "put"); break;
    case 14: seen(actor, polder_string_put_until(caller, words[0], words[1], below(actor, UINT64_MAX)), "put_until"); break;
    case 15: seen(actor, polder_string_add(caller, words[0], (int64_t)below(actor, UINT64_MAX), below(actor, 2) ? &sum : NULL), "add"); break;
    case 16: {
        polder_listener listener = {below(actor, UINT64_MAX)};
        polder_text news[] = {polder_string("SUBSCRIBE"), words[0]};
        if (below(actor, 8) == 0 && seen(actor, polder_listen(memory, 2, news, below(actor, 5) ? elsewhere : NULL, NULL, below(actor, 5) ? &listener : NULL), "listen"))
            break;
        seen(actor, polder_stop(listener), "stop");
        break;
    }
    case 17: {
        polder_memory other = {below(actor, UINT64_MAX)};
        seen(actor, polder_detach(other), "detach");
        seen(actor, polder_open(other, &caller), "open");
        break;
    }
    default: {
        size_t more = some_count(actor, 3);
        seen(actor, polder_run_more(caller, some_count(actor, 5), below(actor, 9) ? words : NULL, more, more > 3 ? NULL : words, out), "run");
    }
    }
    if (reply != NULL)
        weight += weigh(reply);
    keep(actor, reply);
}

static long steps;

static void *act(void *argument)
{
    struct actor *actor = argument;
    polder_text set[] = {polder_string("SET"), polder_string("own"), polder_string("v")};
    polder_caller fresh;
    int at;
    while (actor->steps < steps)
        step(actor);
    /* After all that, whoever does it right is served. A pause or CLIENT KILL of the others may not reach him. */
    if (polder_open(memory, &fresh) || polder_run(fresh, 3, set, NULL) || polder_close(fresh))
        fail("a good call", -1);
    for (at = 0; at < REPLIES; at++)
        if (actor->replies[at] != NULL)
            polder_release(actor->replies[at]);
    return NULL;
}

int main(int count, char **args)
{
    polder_options options = {.ceiling = 96 << 20};
    static struct actor actors[THREADS];
    pthread_t threads[THREADS];
    unsigned at;
    long done = 0, refused = 0;
    if (count != 4)
        return fprintf(stderr, "hostile SEGMENT SEED STEPS\n"), 2;
    steps = atol(args[3]);
    if (polder_attach(args[1], &options, &memory))
        fail("attach", -1);
    for (at = 0; at < THREADS; at++) {
        actors[at].number = at;
        actors[at].state = strtoull(args[2], NULL, 10) * 0x9e3779b97f4a7c15u + at + 1;
        if (pthread_create(&threads[at], NULL, act, &actors[at]))
            return 1;
    }
    for (at = 0; at < THREADS; at++) {
        pthread_join(threads[at], NULL);
        done += actors[at].steps;
        refused += actors[at].refused;
    }
    if (polder_detach(memory) || polder_remove(args[1]))
        fail("the end", -1);
    printf("hostile: %ld calls, %ld of them refused, seed %s\n", done, refused, args[2]);
    return 0;
}
