/* Everything that polder_client.h promises, well used and misused. Run with a URL whose databases may be emptied, and the
 * process id of its server, which is stopped for a while; 0 where there is no server (shared memory). */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "polder_client.h"
#include "check.h"

static const char *url;
static pid_t server;
static polder_client client;

#define WORDS(...) (sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), words_of(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

/* Room for one call at a time of each thread. */
static const polder_text *words_of(size_t count, const char *const *words)
{
    static _Thread_local polder_text texts[16];
    for (size_t at = 0; at < count; at++)
        texts[at] = polder_string(words[at]);
    return texts;
}

static int says(const polder_reply *reply, const char *text)
{
    return reply->length == strlen(text) && memcmp(reply->text, text, reply->length) == 0;
}

static int64_t number(polder_status status, const polder_reply *reply)
{
    CHECK(status == POLDER_OK && reply && reply->kind == POLDER_INTEGER);
    int64_t integer = reply->integer;
    CHECK(polder_release(reply) == POLDER_OK);
    return integer;
}

/* What has become of a call. */
struct outcome {
    int ran;
    polder_status status;
    int64_t integer;
    char text[64];
};

static void keep(void *context, polder_status status, const polder_reply *reply)
{
    struct outcome *outcome = context;
    outcome->ran++;
    outcome->status = status;
    CHECK((status == POLDER_OK) == (reply != NULL));
    if (reply) {
        outcome->integer = reply->kind == POLDER_INTEGER ? reply->integer : (int64_t)reply->count;
        snprintf(outcome->text, sizeof outcome->text, "%.*s", (int)reply->length, reply->text ? (const char *)reply->text : "");
    } else {
        snprintf(outcome->text, sizeof outcome->text, "%s", polder_message());
    }
}

static void until(const int *done)
{
    size_t count;
    for (int turn = 0; !*done && turn < 200; turn++)
        CHECK(polder_client_wait(client, 100, &count) == POLDER_OK);
    CHECK(*done);
}

static void replies_are_trees(void)
{
    const polder_reply *reply;
    CHECK(polder_client_run(client, NULL, WORDS("HSET", "h", "f", "1.5", "g", "x"), &reply) == POLDER_OK);
    CHECK(number(POLDER_OK, reply) == 2);
    CHECK(polder_client_run(client, NULL, WORDS("HGETALL", "h"), &reply) == POLDER_OK);
    CHECK(reply->kind == POLDER_MAP && reply->count == 4 && says(&reply->items[0], "f") && says(&reply->items[3], "x"));
    CHECK(polder_release(reply) == POLDER_OK && polder_release(reply) == POLDER_MISUSE);
    CHECK(polder_client_run(client, NULL, WORDS("GET", "none"), &reply) == POLDER_OK && reply->kind == POLDER_NULL);
    CHECK(polder_release(reply) == POLDER_OK);
    CHECK(polder_client_run(client, NULL, WORDS("ZADD", "z", "2.5", "m"), NULL) == POLDER_OK);
    CHECK(polder_client_run(client, NULL, WORDS("ZSCORE", "z", "m"), &reply) == POLDER_OK);
    CHECK(reply->kind == POLDER_DOUBLE && reply->number == 2.5 && reply->integer == 2 && polder_release(reply) == POLDER_OK);
    CHECK(polder_client_run(client, NULL, WORDS("INCR", "h"), &reply) == POLDER_REFUSED && reply == NULL);
    CHECK(strncmp(polder_message(), "WRONGTYPE", 9) == 0);
    CHECK(polder_client_run(client, NULL, WORDS("EVAL", "return {1, {'a', {}}, 'b'}", "0"), &reply) == POLDER_OK);
    CHECK(reply->count == 3 && reply->items[1].count == 2 && says(&reply->items[1].items[0], "a") && says(&reply->items[2], "b"));
    CHECK(reply->items[1].items[1].kind == POLDER_ARRAY && reply->items[1].items[1].count == 0);
    CHECK(polder_release(reply) == POLDER_OK);
    /* Bytes of any kind, and many of them. */
    size_t large = 3000000;
    char *value = calloc(1, large);
    polder_text set[] = {polder_string("SET"), polder_string("large"), polder_bytes(value, large)};
    CHECK(polder_client_run(client, NULL, 3, set, NULL) == POLDER_OK);
    CHECK(polder_client_run(client, NULL, WORDS("GET", "large"), &reply) == POLDER_OK && reply->length == large);
    CHECK(memcmp(reply->text, value, large) == 0 && polder_release(reply) == POLDER_OK);
    free(value);
}

static void calls_end_by_callback(void)
{
    enum { CALLS = 500 };
    static struct outcome outcomes[CALLS];
    int descriptor = -1;
    size_t count = 0, done = 0;
    CHECK(polder_client_descriptor(client, &descriptor) == POLDER_OK && descriptor >= 0);
    for (int at = 0; at < CALLS; at++) {
        polder_call_options options = {.database = at % 5, .is_held = at % 7 != 0};
        CHECK(polder_client_submit(client, &options, WORDS("INCR", "n"), keep, &outcomes[at], NULL) == POLDER_OK);
    }
    CHECK(polder_client_in_flight(client, &count) == POLDER_OK && count == CALLS);
    CHECK(polder_client_flush(client) == POLDER_OK);
    while (done < CALLS) {
        struct pollfd ready = {descriptor, POLLIN, 0};
        CHECK(poll(&ready, 1, 20000) == 1);
        CHECK(polder_client_process(client, &count) == POLDER_OK);
        done += count;
    }
    for (int at = 0; at < CALLS; at++)
        CHECK(outcomes[at].ran == 1 && outcomes[at].status == POLDER_OK && outcomes[at].integer == at / 5 + 1);
    CHECK(polder_client_in_flight(client, &count) == POLDER_OK && count == 0);
    CHECK(polder_client_wait(client, -1, &count) == POLDER_OK && count == 0);
    /* What is fired runs before the next call of its database. */
    polder_call_options third = {.database = 3};
    const polder_reply *reply;
    for (int at = 0; at < 100; at++)
        CHECK(polder_client_fire(client, &third, WORDS("INCR", "fired")) == POLDER_OK);
    CHECK(polder_client_run(client, &third, WORDS("INCR", "fired"), &reply) == POLDER_OK);
    CHECK(number(POLDER_OK, reply) == 101);
    /* A refusal, and a call that cannot be made, are told by the callback as well. */
    struct outcome refused = {0}, unusable = {0};
    CHECK(polder_client_submit(client, NULL, WORDS("INCR", "h"), keep, &refused, NULL) == POLDER_OK);
    CHECK(polder_client_submit(client, NULL, WORDS("SELECT", "1"), keep, &unusable, NULL) == POLDER_OK);
    CHECK(refused.ran == 0 && unusable.ran == 0);
    until(&refused.ran);
    until(&unusable.ran);
    CHECK(refused.status == POLDER_REFUSED && strncmp(refused.text, "WRONGTYPE", 9) == 0);
    CHECK(unusable.status == POLDER_MISUSE && unusable.text[0]);
}

static void groups_are_sent_together(void)
{
    const polder_reply *reply;
    polder_text set[] = {polder_string("SET"), polder_string("a"), polder_string("1")};
    polder_text add[] = {polder_string("INCRBY"), polder_string("a"), polder_string("4")};
    polder_text bad[] = {polder_string("LPUSH"), polder_string("a"), polder_string("x")};
    polder_words calls[] = {{3, set}, {3, add}, {3, bad}};
    for (int atomically = 0; atomically < 2; atomically++) {
        CHECK(polder_client_run_group(client, NULL, atomically, 3, calls, &reply) == POLDER_OK);
        CHECK(reply->kind == POLDER_ARRAY && reply->count == 3 && reply->items[1].integer == 5);
        CHECK(reply->items[2].kind == POLDER_ERROR && polder_release(reply) == POLDER_OK);
    }
    struct outcome outcome = {0};
    CHECK(polder_client_submit_group(client, NULL, 1, 2, calls, keep, &outcome, NULL) == POLDER_OK);
    until(&outcome.ran);
    CHECK(outcome.status == POLDER_OK && outcome.integer == 2);
    CHECK(polder_client_run_group(client, NULL, 0, 0, NULL, &reply) == POLDER_MISUSE && reply == NULL);
}

static void a_call_that_waits_is_cancelled_and_takes_nothing(void)
{
    struct outcome taken = {0}, cancelled = {0};
    polder_call call;
    const polder_reply *reply;
    CHECK(polder_client_submit(client, NULL, WORDS("BLPOP", "queue", "0"), keep, &cancelled, &call) == POLDER_OK);
    usleep(100000);
    CHECK(polder_client_cancel(client, call) == POLDER_OK && polder_client_cancel(client, call) == POLDER_CLOSED);
    usleep(100000);
    CHECK(polder_client_submit(client, NULL, WORDS("BLPOP", "queue", "0"), keep, &taken, &call) == POLDER_OK);
    usleep(100000);
    CHECK(polder_client_run(client, NULL, WORDS("RPUSH", "queue", "job"), &reply) == POLDER_OK);
    polder_release(reply);
    until(&taken.ran);
    CHECK(taken.status == POLDER_OK && taken.integer == 2 && cancelled.ran == 0);
    CHECK(polder_client_cancel(client, call) == POLDER_CLOSED);
}

static void a_deadline_names_its_stage(void)
{
    if (!server)
        return;
    polder_call_options soon = {.timeout_ms = 50};
    struct timespec first, begun, ended;
    polder_status status;
    polder_stage stage;
    CHECK(kill(server, SIGSTOP) == 0);
    clock_gettime(CLOCK_MONOTONIC, &first);
    /* All threads of the server have stopped only some time later; and a stall of this machine is not the server's fault, which its stage says. */
    do {
        clock_gettime(CLOCK_MONOTONIC, &begun);
        status = polder_client_run(client, &soon, WORDS("GET", "a"), NULL);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        stage = polder_client_stage();
    } while ((status == POLDER_OK || stage == POLDER_STAGE_RUNTIME) && ended.tv_sec - first.tv_sec < 20);
    CHECK(kill(server, SIGCONT) == 0);
    CHECK(status == POLDER_TIMED_OUT && stage == POLDER_STAGE_SERVER && strstr(polder_message(), "at stage server"));
    long passed_ms = (ended.tv_sec - begun.tv_sec) * 1000 + (ended.tv_nsec - begun.tv_nsec) / 1000000;
    CHECK(passed_ms >= 49 && passed_ms < 2000);
    /* A server that is not there: nothing was sent. */
    polder_client nowhere;
    CHECK(polder_client_connect("redis://127.0.0.1:1?policy=fail-fast", &nowhere) == POLDER_OK);
    CHECK(polder_client_run(nowhere, NULL, WORDS("GET", "a"), NULL) == POLDER_NOT_SENT && polder_message()[0]);
    CHECK(polder_client_close(nowhere) == POLDER_OK);
    CHECK(polder_client_connect("redis://127.0.0.1:1?timeout_ms=1000", &nowhere) == POLDER_OK);
    CHECK(polder_client_run(nowhere, NULL, WORDS("GET", "a"), NULL) == POLDER_TIMED_OUT);
    CHECK(polder_client_stage() == POLDER_STAGE_QUEUE && strstr(polder_message(), "at stage queue"));
    CHECK(polder_client_close(nowhere) == POLDER_OK);
}

static polder_subscription news;

/* What was heard, and whether it ends its own subscription. */
struct heard {
    int ready, messages, ends;
    char payload[32];
};

static void hear(void *context, polder_event event, const polder_reply *reply)
{
    struct heard *heard = context;
    CHECK(event != POLDER_MISSED && event != POLDER_UNHEARD);
    heard->ready += event == POLDER_READY;
    if (event != POLDER_MESSAGE)
        return;
    heard->messages++;
    CHECK(reply->count == 3 && reply->items[0].kind == POLDER_TEXT);
    snprintf(heard->payload, sizeof heard->payload, "%.*s", (int)reply->items[2].length, (const char *)reply->items[2].text);
    /* A callback may call any function. */
    CHECK(polder_client_run(client, NULL, WORDS("PING"), NULL) == POLDER_OK && polder_client_process(client, NULL) == POLDER_OK);
    if (heard->ends)
        CHECK(polder_client_unsubscribe(client, news) == POLDER_OK);
}

static void channels_are_heard(void)
{
    struct heard own = {.ends = 1}, pattern = {0};
    polder_subscription all;
    CHECK(polder_client_subscribe(client, POLDER_CHANNELS, WORDS("news"), hear, &own, &news) == POLDER_OK);
    CHECK(polder_client_subscribe(client, POLDER_PATTERNS, WORDS("n*"), hear, &pattern, &all) == POLDER_OK);
    until(&own.ready);
    until(&pattern.ready);
    CHECK(polder_client_run(client, NULL, WORDS("PUBLISH", "news", "one"), NULL) == POLDER_OK);
    until(&own.messages);
    until(&pattern.messages);
    CHECK(strcmp(own.payload, "one") == 0 && strcmp(pattern.payload, "one") == 0);
    pattern.messages = 0;
    CHECK(polder_client_run(client, NULL, WORDS("PUBLISH", "news", "two"), NULL) == POLDER_OK);
    until(&pattern.messages);
    CHECK(own.messages == 1 && own.ready == 1);
    CHECK(polder_client_unsubscribe(client, news) == POLDER_CLOSED && polder_client_unsubscribe(client, all) == POLDER_OK);
    CHECK(polder_client_subscribe(client, 9, WORDS("news"), hear, &own, &news) == POLDER_MISUSE);
    CHECK(polder_client_subscribe(client, 0, 0, NULL, hear, &own, &news) == POLDER_MISUSE);
}

static void *count_up(void *context)
{
    for (int at = 0; at < 200; at++) {
        const polder_reply *reply;
        CHECK(polder_client_run(client, NULL, WORDS("INCR", "threads"), &reply) == POLDER_OK);
        polder_release(reply);
        CHECK(polder_client_submit(client, NULL, WORDS("INCR", "threads"), keep, context, NULL) == POLDER_OK);
    }
    return NULL;
}

static void threads_share_a_client(void)
{
    pthread_t threads[4];
    static struct outcome outcomes[4];
    const polder_reply *reply;
    int ran = 0;
    for (int at = 0; at < 4; at++)
        CHECK(pthread_create(&threads[at], NULL, count_up, &outcomes[at]) == 0);
    for (int turn = 0; ran < 800 && turn < 2000; turn++) {
        CHECK(polder_client_wait(client, 10, NULL) == POLDER_OK);
        ran = outcomes[0].ran + outcomes[1].ran + outcomes[2].ran + outcomes[3].ran;
        usleep(ran < 800 ? 1000 : 0);
    }
    for (int at = 0; at < 4; at++)
        pthread_join(threads[at], NULL);
    CHECK(ran == 800);
    CHECK(polder_client_run(client, NULL, WORDS("INCR", "threads"), &reply) == POLDER_OK);
    CHECK(number(POLDER_OK, reply) == 1601);
}

static void what_is_handed_in_wrongly_is_told(void)
{
    polder_client none = {0}, other;
    struct outcome outcome = {0};
    polder_call_options odd = {.policy = 9};
    polder_text null = {NULL, 3};
    CHECK(polder_client_connect(NULL, &other) == POLDER_MISUSE && polder_client_connect(url, NULL) == POLDER_MISUSE);
    CHECK(polder_client_connect("http://x", &other) == POLDER_MISUSE && strstr(polder_message(), "redis://"));
    CHECK(polder_client_run(none, NULL, WORDS("PING"), NULL) == POLDER_CLOSED);
    CHECK(polder_client_close(none) == POLDER_CLOSED && polder_client_process(none, NULL) == POLDER_CLOSED);
    CHECK(polder_client_run(client, &odd, WORDS("PING"), NULL) == POLDER_MISUSE);
    CHECK(polder_client_run(client, NULL, 1, &null, NULL) == POLDER_MISUSE);
    CHECK(polder_client_run(client, NULL, 1, NULL, NULL) == POLDER_MISUSE);
    CHECK(polder_client_run(client, NULL, 0, NULL, NULL) == POLDER_MISUSE);
    CHECK(polder_client_submit(client, NULL, WORDS("PING"), NULL, &outcome, NULL) == POLDER_MISUSE);
    CHECK(polder_client_submit(client, NULL, (size_t)-1, &null, keep, &outcome, NULL) == POLDER_MISUSE);
    CHECK(polder_client_cancel(client, (polder_call){12345678}) == POLDER_CLOSED);
    CHECK(outcome.ran == 0);
}

/* A callback that forks at its first call. */
static pid_t forked;
static int runs;

static void fork_once(void)
{
    if (++runs == 1) {
        forked = fork();
        CHECK(forked >= 0);
        if (forked == 0)
            alarm(60);
    }
}

static void ended_forks(void *context, polder_status status, const polder_reply *reply)
{
    (void)context, (void)status, (void)reply;
    fork_once();
}

static void heard_forks(void *context, polder_event event, const polder_reply *reply)
{
    (void)reply;
    if (event == POLDER_READY)
        *(int *)context = 1;
    else if (event == POLDER_MESSAGE) {
        CHECK(polder_client_unsubscribe(client, news) == POLDER_OK);
        fork_once();
    }
}

/* Ends the child; in the parent, says how often the callback ran. */
static int runs_of_the_parent(polder_status status)
{
    int ran = runs, ended;
    if (forked == 0) {
        CHECK(status == POLDER_FORKED && runs == 1);
        CHECK(polder_client_process(client, NULL) == POLDER_FORKED && polder_client_close(client) == POLDER_OK);
        execlp("true", "true", (char *)NULL);
    }
    CHECK(status == POLDER_OK && waitpid(forked, &ended, 0) == forked && ended == 0);
    runs = 0;
    return ran;
}

static void a_callback_that_forks_is_the_last_of_the_child(void)
{
    int is_ready = 0;
    for (int at = 0; at < 3; at++)
        CHECK(polder_client_submit(client, NULL, WORDS("PING"), ended_forks, NULL, NULL) == POLDER_OK);
    /* Its reply is behind those of the three. */
    CHECK(polder_client_run(client, NULL, WORDS("PING"), NULL) == POLDER_OK);
    CHECK(runs_of_the_parent(polder_client_process(client, NULL)) == 3);
    CHECK(polder_client_subscribe(client, POLDER_CHANNELS, WORDS("forks"), heard_forks, &is_ready, &news) == POLDER_OK);
    until(&is_ready);
    CHECK(polder_client_run(client, NULL, WORDS("PUBLISH", "forks", "x"), NULL) == POLDER_OK);
    CHECK(runs_of_the_parent(polder_client_wait(client, 20000, NULL)) == 1);
    /* Calls that a close ends. */
    polder_client shared = client;
    CHECK(polder_client_connect(url, &client) == POLDER_OK);
    for (int at = 0; at < 2; at++)
        CHECK(polder_client_submit(client, NULL, WORDS("BLPOP", "never", "0"), ended_forks, NULL, NULL) == POLDER_OK);
    polder_status status = polder_client_close(client);
    if (forked == 0) {
        CHECK(status == POLDER_OK && runs == 1);
        execlp("true", "true", (char *)NULL);
    }
    CHECK(runs_of_the_parent(status) == 2);
    client = shared;
}

/* A thread that waits without end, how that ended, and how often it slept meanwhile. */
struct waiter {
    polder_client client;
    polder_status status;
    size_t count;
    long sleeps;
};

static void *wait_for_ever(void *context)
{
    struct waiter *waiter = context;
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    waiter->status = polder_client_wait(waiter->client, -1, &waiter->count);
    getrusage(RUSAGE_THREAD, &after);
    waiter->sleeps = after.ru_nvcsw - before.ru_nvcsw;
    return NULL;
}

static void threads_that_wait_learn_that_nothing_will_come(void)
{
    enum { WAITERS = 4 };
    for (int closes = 0; closes <= 1; closes++) {
        polder_client own;
        polder_call call;
        pthread_t threads[WAITERS];
        struct waiter waiters[WAITERS];
        struct outcome outcome = {0};
        CHECK(polder_client_connect(url, &own) == POLDER_OK && polder_client_run(own, NULL, WORDS("PING"), NULL) == POLDER_OK);
        CHECK(polder_client_submit(own, NULL, WORDS("BLPOP", "never", "0"), keep, &outcome, &call) == POLDER_OK);
        for (int at = 0; at < WAITERS; at++) {
            waiters[at] = (struct waiter){.client = own, .status = POLDER_FAULT};
            CHECK(pthread_create(&threads[at], NULL, wait_for_ever, &waiters[at]) == 0);
        }
        usleep(500000);
        CHECK((closes ? polder_client_close(own) : polder_client_cancel(own, call)) == POLDER_OK);
        for (int at = 0; at < WAITERS; at++) {
            CHECK(pthread_join(threads[at], NULL) == 0);
            CHECK(waiters[at].status == (closes ? POLDER_CLOSED : POLDER_OK) && waiters[at].count == 0);
            /* Each was woken, and did not look by itself every now and then. Under valgrind threads also sleep while another one runs. */
            CHECK(waiters[at].sleeps < 20 || getenv("UNDER_VALGRIND"));
        }
        CHECK(outcome.ran == closes);
        if (!closes)
            CHECK(polder_client_close(own) == POLDER_OK);
    }
}

static void a_forked_child_connects_anew(void)
{
    struct outcome outcome = {0};
    int status;
    CHECK(polder_client_submit(client, NULL, WORDS("BLPOP", "never", "0"), keep, &outcome, NULL) == POLDER_OK);
    pid_t child = fork();
    if (child == 0) {
        polder_client own;
        alarm(60);
        CHECK(polder_client_run(client, NULL, WORDS("PING"), NULL) == POLDER_FORKED);
        CHECK(polder_client_close(client) == POLDER_OK && outcome.ran == 0);
        CHECK(polder_client_connect(url, &own) == POLDER_OK && polder_client_run(own, NULL, WORDS("PING"), NULL) == POLDER_OK);
        CHECK(polder_client_close(own) == POLDER_OK);
        /* Not by an exit: a checker of leaks would find the parent's client, which a child does not free. */
        execlp("true", "true", (char *)NULL);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(polder_client_run(client, NULL, WORDS("PING"), NULL) == POLDER_OK);
    /* A close ends the calls in flight, each by its callback. */
    CHECK(outcome.ran == 0 && polder_client_close(client) == POLDER_OK);
    CHECK(outcome.ran == 1 && outcome.status == POLDER_CLOSED && strstr(outcome.text, "closed"));
    CHECK(polder_client_run(client, NULL, WORDS("PING"), NULL) == POLDER_CLOSED);
}

int main(int count, char **words)
{
    if (count < 3) {
        fprintf(stderr, "client URL PID\n");
        return 2;
    }
    url = words[1];
    server = atoi(words[2]);
    CHECK(polder_client_connect(url, &client) == POLDER_OK);
    CHECK(polder_client_run(client, NULL, WORDS("FLUSHALL"), NULL) == POLDER_OK);
    replies_are_trees();
    calls_end_by_callback();
    groups_are_sent_together();
    a_call_that_waits_is_cancelled_and_takes_nothing();
    channels_are_heard();
    threads_share_a_client();
    what_is_handed_in_wrongly_is_told();
    a_deadline_names_its_stage();
    a_callback_that_forks_is_the_last_of_the_child();
    threads_that_wait_learn_that_nothing_will_come();
    a_forked_child_connects_anew();
    printf("client: %d checks hold\n", checks);
    return 0;
}
