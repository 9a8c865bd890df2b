/* Everything that C may hand in wrongly to polder_client.h, at random, from several threads that share their clients: handles that are closed
 * or guessed, NULL, sizes that nothing can have, calls out of callbacks, closes while others wait. Each gets a status, and each call that
 * was submitted ends once: by its callback, or by a cancel.
 *
 *     hostile_client URL SEED STEPS */
#include <pthread.h>
#include <stdlib.h>

#include "polder_client.h"

enum { CLIENTS = 4, CALLS = 16, THREADS = 3 };

static const char *url;
static long steps;
/* Handles of all threads: a word is read whole. */
static uint64_t clients[CLIENTS];
static long submitted, ran, cancelled;

struct actor {
    uint64_t state;
    /* Calls of this thread that may be in flight, each with the client that it was made by. */
    struct {
        polder_client client;
        polder_call call;
        void *context;
    } calls[CALLS];
};

static uint64_t below(struct actor *actor, uint64_t most)
{
    actor->state ^= actor->state << 13;
    actor->state ^= actor->state >> 7;
    actor->state ^= actor->state << 17;
    return (actor->state >> 11) % most;
}

static polder_status seen(polder_status status)
{
    if ((int)status < POLDER_OK || status == POLDER_PANIC || status > POLDER_TIMED_OUT || (status != POLDER_OK && !*polder_message())) {
        fprintf(stderr, "hostile_client: status %d: %s\n", (int)status, polder_message());
        exit(1);
    }
    return status;
}

static polder_client some_client(struct actor *actor)
{
    polder_client client = {__atomic_load_n(&clients[below(actor, CLIENTS)], __ATOMIC_SEQ_CST)};
    if (below(actor, 20) == 0)
        client.handle = below(actor, 2) ? 0 : actor->state;
    return client;
}

static const char *const WORDS[] = {"GET", "SET", "INCR", "LPUSH", "BLPOP", "0.001", "k", "l", "1", "PING", "EVAL", "return 1", "0", "SELECT",
                                    "MULTI", "EXEC", "WATCH", "SUBSCRIBE", "HGETALL", "HSET", "CLIENT", "ID", "PUBLISH", "ECHO", ""};

static size_t some_words(struct actor *actor, polder_text *words)
{
    size_t count = below(actor, 5);
    for (size_t at = 0; at < 5; at++) {
        words[at] = polder_string(WORDS[below(actor, sizeof WORDS / sizeof *WORDS)]);
        if (below(actor, 60) == 0)
            words[at] = (polder_text){NULL, below(actor, 2) ? 3 : SIZE_MAX};
    }
    return below(actor, 100) ? count : SIZE_MAX / 2;
}

/* Its context is freed here, once. */
static void ended(void *context, polder_status status, const polder_reply *reply)
{
    seen(status);
    if ((status == POLDER_OK) != (reply != NULL))
        abort();
    __atomic_add_fetch(&ran, 1, __ATOMIC_SEQ_CST);
    polder_client client = {*(uint64_t *)context};
    if (client.handle % 2)
        seen(polder_client_process(client, NULL));
    free(context);
}

static void heard(void *context, polder_event event, const polder_reply *reply)
{
    if (context != NULL || (event == POLDER_MESSAGE && (reply == NULL || reply->count != 3)))
        abort();
}

static void submit(struct actor *actor, polder_client client, const polder_call_options *options, size_t count, const polder_text *words)
{
    polder_call call = {0};
    uint64_t *context = malloc(sizeof *context);
    polder_words group[2] = {{count, words}, {count, words}};
    *context = client.handle;
    polder_status status = below(actor, 4) ? polder_client_submit(client, options, count, words, ended, context, &call)
                                           : polder_client_submit_group(client, options, below(actor, 2), below(actor, 3), group, ended, context, &call);
    if (seen(status) != POLDER_OK) {
        free(context);
        return;
    }
    __atomic_add_fetch(&submitted, 1, __ATOMIC_SEQ_CST);
    size_t at = below(actor, CALLS);
    actor->calls[at].client = client, actor->calls[at].call = call, actor->calls[at].context = context;
}

static void cancel(struct actor *actor)
{
    size_t at = below(actor, CALLS);
    if (actor->calls[at].context && seen(polder_client_cancel(actor->calls[at].client, actor->calls[at].call)) == POLDER_OK) {
        __atomic_add_fetch(&cancelled, 1, __ATOMIC_SEQ_CST);
        free(actor->calls[at].context);
    }
    actor->calls[at].context = NULL;
    seen(polder_client_cancel(some_client(actor), (polder_call){UINT64_MAX - below(actor, 9)}));
}

static void step(struct actor *actor)
{
    polder_client client = some_client(actor), fresh;
    polder_call_options options = {below(actor, 4), below(actor, 2), below(actor, 40) ? below(actor, 3) : 9, below(actor, 2), 20 - (int64_t)below(actor, 30)};
    const polder_call_options *how = below(actor, 3) ? &options : NULL;
    const polder_reply *reply = NULL;
    polder_subscription subscription = {0};
    polder_text words[5];
    size_t count = some_words(actor, words);
    switch (below(actor, 14)) {
    case 0: seen(polder_client_run(client, &(polder_call_options){.timeout_ms = 1000}, count, words, below(actor, 2) ? &reply : NULL)); break;
    case 1: seen(polder_client_fire(client, how, count, words)); break;
    case 2: seen(polder_client_process(client, below(actor, 2) ? &count : NULL)); break;
    case 3: seen(polder_client_wait(client, below(actor, 3), NULL)); break;
    case 4: seen(polder_client_flush(client)); break;
    case 5: cancel(actor); break;
    case 6: seen(polder_client_in_flight(client, &count)); break;
    case 7: seen(polder_client_submit(client, how, count, words, NULL, NULL, NULL)); break;
    case 8:
        if (below(actor, 20) == 0 && seen(polder_client_connect(below(actor, 9) ? url : "nonsense", &fresh)) == POLDER_OK) {
            /* What was there is closed, whatever others do with it. */
            client.handle = __atomic_exchange_n(&clients[below(actor, CLIENTS)], fresh.handle, __ATOMIC_SEQ_CST);
            seen(polder_client_close(client));
        }
        break;
    case 9:
        if (below(actor, 20) == 0 && seen(polder_client_subscribe(client, below(actor, 4), count, words, heard, NULL, &subscription)) == POLDER_OK)
            seen(polder_client_unsubscribe(client, subscription));
        break;
    default: submit(actor, client, how, count, words);
    }
    if (reply != NULL)
        seen(polder_release(reply));
}

static void *act(void *argument)
{
    for (long at = 0; at < steps; at++)
        step(argument);
    return NULL;
}

int main(int count, char **args)
{
    static struct actor actors[THREADS];
    pthread_t threads[THREADS];
    if (count != 4)
        return fprintf(stderr, "hostile_client URL SEED STEPS\n"), 2;
    url = args[1];
    steps = atol(args[3]);
    for (size_t at = 0; at < CLIENTS; at++) {
        polder_client client;
        seen(polder_client_connect(url, &client));
        clients[at] = client.handle;
    }
    for (size_t at = 0; at < THREADS; at++) {
        actors[at].state = strtoull(args[2], NULL, 10) * 0x9e3779b97f4a7c15u + at + 1;
        if (pthread_create(&threads[at], NULL, act, &actors[at]))
            return 1;
    }
    for (size_t at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    for (size_t at = 0; at < CLIENTS; at++)
        if (seen(polder_client_close((polder_client){clients[at]})) != POLDER_OK)
            return fprintf(stderr, "hostile_client: a client is gone\n"), 1;
    if (submitted != ran + cancelled)
        return fprintf(stderr, "hostile_client: %ld submitted, %ld ran, %ld cancelled\n", submitted, ran, cancelled), 1;
    printf("hostile_client: %ld calls submitted, %ld of them cancelled, seed %s\n", submitted, cancelled, args[2]);
    return 0;
}
