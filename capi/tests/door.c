/* Everything that the C door promises, well used and misused. Run with the name of a segment, which is made and removed. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "polder_commands.h"
#include "check.h"

static polder_memory memory;

static int says(const polder_reply *reply, const char *text)
{
    return reply->length == strlen(text) && memcmp(reply->text, text, reply->length) == 0;
}

static polder_caller open_caller(void)
{
    polder_caller caller;
    CHECK(polder_open(memory, &caller) == POLDER_OK);
    return caller;
}

static void replies_are_trees(void)
{
    polder_caller caller = open_caller();
    const polder_reply *reply;
    polder_text more[] = {polder_string("f"), polder_string("1.5"), polder_string("g"), polder_bytes("a\0b", 3)};
    CHECK(polder_run_more(caller, 2, (polder_text[]){polder_string("HSET"), polder_string("h")}, 4, more, &reply) == POLDER_OK);
    CHECK(reply->kind == POLDER_INTEGER && reply->integer == 2);
    CHECK(polder_release(reply) == POLDER_OK);
    CHECK(polder_hgetall(caller, polder_string("h"), &reply) == POLDER_OK);
    CHECK(reply->kind == POLDER_MAP && reply->count == 4);
    CHECK(says(&reply->items[0], "f") && says(&reply->items[1], "1.5") && says(&reply->items[2], "g"));
    CHECK(reply->items[3].length == 3 && memcmp(reply->items[3].text, "a\0b", 3) == 0);
    CHECK(polder_release(reply) == POLDER_OK);
    CHECK(polder_hincrby(caller, polder_string("h"), polder_string("n"), -7, &reply) == POLDER_OK && reply->integer == -7);
    CHECK(polder_release(reply) == POLDER_OK);
    CHECK(polder_incr(caller, polder_string("h"), &reply) == POLDER_REFUSED && reply == NULL);
    CHECK(strncmp(polder_message(), "WRONGTYPE", 9) == 0);
    CHECK(polder_get(caller, polder_string("none"), &reply) == POLDER_OK && reply->kind == POLDER_NULL);
    /* A reply outlives its caller. */
    CHECK(polder_close(caller) == POLDER_OK);
    CHECK(reply->kind == POLDER_NULL && polder_release(reply) == POLDER_OK);
}

static void see(void *context, const uint8_t *bytes, size_t length)
{
    *(long *)context = bytes ? (long)length : -1;
}

static void strings_go_the_short_way(void)
{
    polder_caller caller = open_caller();
    char buffer[8];
    size_t length = 0;
    int64_t sum = 0;
    long seen = 0;
    size_t large = 3000000;
    char *value = malloc(large);
    memset(value, 'x', large);
    CHECK(polder_string_put(caller, polder_string("s"), polder_string("value")) == POLDER_OK);
    CHECK(polder_string_copy(caller, polder_string("s"), (uint8_t *)buffer, sizeof buffer, &length) == POLDER_OK);
    CHECK(length == 5 && memcmp(buffer, "value", 5) == 0);
    CHECK(polder_string_copy(caller, polder_string("s"), (uint8_t *)buffer, 4, &length) == POLDER_TOO_SMALL && length == 5);
    CHECK(polder_string_copy(caller, polder_string("none"), (uint8_t *)buffer, 4, &length) == POLDER_ABSENT);
    CHECK(polder_string_put(caller, polder_string("l"), polder_bytes(value, large)) == POLDER_OK);
    CHECK(polder_string_see(caller, polder_string("l"), see, &seen) == POLDER_OK && seen == (long)large);
    CHECK(polder_string_see(caller, polder_string("none"), see, &seen) == POLDER_OK && seen == -1);
    CHECK(polder_string_add(caller, polder_string("count"), 5, &sum) == POLDER_OK && sum == 5);
    CHECK(polder_string_add(caller, polder_string("s"), 5, &sum) == POLDER_REFUSED);
    CHECK(polder_string_put_until(caller, polder_string("old"), polder_string("v"), 1) == POLDER_OK);
    CHECK(polder_string_copy(caller, polder_string("old"), NULL, 0, NULL) == POLDER_ABSENT);
    free(value);
    CHECK(polder_close(caller) == POLDER_OK);
}

static void batches_run_together(void)
{
    polder_caller caller = open_caller();
    const polder_reply *reply;
    polder_text push[] = {polder_string("RPUSH"), polder_string("q"), polder_string("x")};
    polder_text count[] = {polder_string("LLEN"), polder_string("q")};
    polder_text wrong[] = {polder_string("INCR"), polder_string("q")};
    int round;
    for (round = 0; round < 100; round++)
        CHECK(polder_batch_add(caller, 3, push) == POLDER_OK);
    CHECK(polder_batch_add(caller, 2, wrong) == POLDER_OK);
    CHECK(polder_batch_add(caller, 2, count) == POLDER_OK);
    CHECK(polder_batch_run(caller, 0, &reply) == POLDER_OK);
    CHECK(reply->kind == POLDER_ARRAY && reply->count == 102);
    CHECK(reply->items[100].kind == POLDER_ERROR && reply->items[101].integer == 100);
    CHECK(polder_release(reply) == POLDER_OK);
    CHECK(polder_batch_add(caller, 3, push) == POLDER_OK);
    CHECK(polder_batch_add(caller, 2, count) == POLDER_OK);
    CHECK(polder_batch_run(caller, 1, &reply) == POLDER_OK && reply->count == 2 && reply->items[1].integer == 101);
    CHECK(polder_release(reply) == POLDER_OK);
    CHECK(polder_batch_add(caller, 3, push) == POLDER_OK && polder_batch_clear(caller) == POLDER_OK);
    CHECK(polder_batch_run(caller, 0, &reply) == POLDER_OK && reply->count == 0);
    CHECK(polder_release(reply) == POLDER_OK);
    CHECK(polder_close(caller) == POLDER_OK);
}

static void *push_later(void *unused)
{
    polder_caller caller = open_caller();
    (void)unused;
    usleep(30000);
    CHECK(polder_run(caller, 3, (polder_text[]){polder_string("RPUSH"), polder_string("w"), polder_string("x")}, NULL) == POLDER_OK);
    CHECK(polder_close(caller) == POLDER_OK);
    return NULL;
}

static void calls_wait_with_and_without_the_thread(void)
{
    polder_caller caller = open_caller();
    const polder_reply *reply;
    pthread_t thread;
    int descriptor;
    struct pollfd polled;
    polder_text pop[] = {polder_string("BLPOP"), polder_string("w"), polder_string("10")};
    CHECK(pthread_create(&thread, NULL, push_later, NULL) == 0);
    CHECK(polder_run(caller, 3, pop, &reply) == POLDER_OK && reply->count == 2 && says(&reply->items[1], "x"));
    CHECK(polder_release(reply) == POLDER_OK);
    pthread_join(thread, NULL);
    CHECK(polder_descriptor(caller, &descriptor) == POLDER_OK);
    CHECK(polder_start(caller, 3, pop, &reply) == POLDER_WAITING && reply == NULL);
    CHECK(polder_resume(caller, &reply) == POLDER_WAITING);
    CHECK(polder_run(caller, 3, pop, &reply) == POLDER_WAITING);
    CHECK(pthread_create(&thread, NULL, push_later, NULL) == 0);
    polled.fd = descriptor;
    polled.events = POLLIN;
    do {
        CHECK(poll(&polled, 1, 10000) == 1);
    } while (polder_resume(caller, &reply) == POLDER_WAITING);
    CHECK(reply && says(&reply->items[1], "x") && polder_release(reply) == POLDER_OK);
    pthread_join(thread, NULL);
    CHECK(polder_start(caller, 3, pop, &reply) == POLDER_WAITING && polder_cancel(caller) == POLDER_OK);
    CHECK(polder_resume(caller, &reply) == POLDER_REFUSED);
    CHECK(polder_close(caller) == POLDER_OK);
}

static polder_caller inner;

static void heard(void *context, const polder_reply *message)
{
    CHECK(message->kind == POLDER_PUSH && message->count == 3 && says(&message->items[0], "message"));
    CHECK(says(&message->items[1], "news"));
    /* The caller that hears is in use, in every way. */
    CHECK(polder_run(inner, 1, (polder_text[]){polder_string("PING")}, NULL) == POLDER_MISUSE);
    CHECK(polder_close(inner) == POLDER_MISUSE);
    ++*(int *)context;
}

static void heard_elsewhere(void *context, const polder_reply *message)
{
    CHECK(message->count == 4 && says(&message->items[2], "news"));
    __atomic_add_fetch((int *)context, 1, __ATOMIC_SEQ_CST);
}

static void messages_are_heard_here_and_elsewhere(void)
{
    polder_caller publisher = open_caller();
    polder_listener listener;
    const polder_reply *reply;
    size_t count = 0;
    int here = 0, elsewhere = 0, round;
    polder_text patterns[] = {polder_string("PSUBSCRIBE"), polder_string("n*")};
    inner = open_caller();
    CHECK(polder_run(inner, 2, (polder_text[]){polder_string("SUBSCRIBE"), polder_string("news")}, NULL) == POLDER_OK);
    CHECK(polder_listen(memory, 2, patterns, heard_elsewhere, &elsewhere, &listener) == POLDER_OK);
    for (round = 0; round < 100; round++) {
        CHECK(polder_publish(publisher, polder_string("news"), polder_string("hello"), &reply) == POLDER_OK && reply->integer == 2);
        CHECK(polder_release(reply) == POLDER_OK);
    }
    while (here < 100)
        CHECK(polder_hear(inner, 1000, heard, &here, &count) == POLDER_OK);
    CHECK(polder_hear(inner, 0, heard, &here, &count) == POLDER_OK && count == 0 && here == 100);
    for (round = 0; round < 1000 && __atomic_load_n(&elsewhere, __ATOMIC_SEQ_CST) < 100; round++)
        usleep(10000);
    CHECK(polder_stop(listener) == POLDER_OK && elsewhere == 100);
    CHECK(polder_stop(listener) == POLDER_CLOSED);
    CHECK(polder_close(inner) == POLDER_OK);
    CHECK(polder_publish(publisher, polder_string("news"), polder_string("hello"), &reply) == POLDER_OK && reply->integer == 0);
    CHECK(polder_release(reply) == POLDER_OK && polder_close(publisher) == POLDER_OK);
}

static polder_caller foreign;
static const polder_reply *foreign_reply;

static void *use_foreign(void *unused)
{
    polder_text ping[] = {polder_string("PING")};
    const polder_reply *reply;
    (void)unused;
    CHECK(polder_run(foreign, 1, ping, &reply) == POLDER_WRONG_THREAD && reply == NULL);
    CHECK(polder_close(foreign) == POLDER_WRONG_THREAD);
    CHECK(polder_release(foreign_reply) == POLDER_MISUSE);
    CHECK(polder_hear(foreign, 0, heard, NULL, NULL) == POLDER_WRONG_THREAD);
    /* Left open with a subscription and a reply: the thread's end cleans up. */
    foreign = open_caller();
    CHECK(polder_run(foreign, 2, (polder_text[]){polder_string("SUBSCRIBE"), polder_string("left")}, &reply) == POLDER_OK);
    return NULL;
}

static void what_is_committed_is_followed(void)
{
    polder_caller caller = open_caller();
    polder_text push[] = {polder_string("RPUSH"), polder_string("followers"), polder_string("a"), polder_string("b")};
    polder_text drop[] = {polder_string("DEL"), polder_string("followed")};
    const polder_reply *begin, *first, *rest, *none;
    CHECK(polder_changes(memory, polder_string(""), 0, &begin) == POLDER_OK && begin->count == 1);
    const polder_reply *here = &begin->items[0].items[0];
    CHECK(here->kind == POLDER_TEXT && begin->items[0].items[1].count == 0);
    CHECK(polder_string_put(caller, polder_string("followed"), polder_string("1")) == POLDER_OK);
    CHECK(polder_batch_add(caller, 4, push) == POLDER_OK && polder_batch_add(caller, 2, drop) == POLDER_OK);
    CHECK(polder_batch_run(caller, 1, NULL) == POLDER_OK);
    CHECK(polder_changes(memory, polder_bytes(here->text, here->length), 1, &first) == POLDER_OK && first->count == 1);
    const polder_reply *command = first->items[0].items[1].items;
    CHECK(first->items[0].items[1].count == 1 && command->count == 4 && command->items[0].integer == 0);
    CHECK(says(&command->items[1], "SET") && says(&command->items[2], "followed") && says(&command->items[3], "1"));
    const polder_reply *behind = &first->items[0].items[0];
    CHECK(polder_changes(memory, polder_bytes(behind->text, behind->length), 0, &rest) == POLDER_OK && rest->count == 1);
    CHECK(rest->items[0].items[1].count == 2 && says(&rest->items[0].items[1].items[0].items[4], "b"));
    const polder_reply *end = &rest->items[0].items[0];
    CHECK(polder_changes(memory, polder_bytes(end->text, end->length), 0, &none) == POLDER_OK && none->count == 0);
    CHECK(polder_release(none) == POLDER_OK && polder_release(rest) == POLDER_OK);
    CHECK(polder_changes(memory, polder_string("here"), 0, &none) == POLDER_MISUSE && none == NULL && strstr(polder_message(), "position"));
    CHECK(polder_changes(memory, polder_string(""), 0, NULL) == POLDER_MISUSE);
    const polder_reply *place, *followers;
    polder_text search = polder_string("search");
    CHECK(polder_follower(memory, search, &place) == POLDER_ABSENT && place == NULL);
    CHECK(polder_follower_keep(memory, search, polder_bytes(behind->text, behind->length)) == POLDER_OK);
    CHECK(polder_follower(memory, search, &place) == POLDER_OK && place->kind == POLDER_TEXT);
    CHECK(place->length == behind->length && memcmp(place->text, behind->text, place->length) == 0);
    CHECK(polder_followers(memory, &followers) == POLDER_OK && followers->count == 1);
    CHECK(says(&followers->items[0].items[0], "search") && followers->items[0].items[2].integer > 0);
    CHECK(polder_release(followers) == POLDER_OK && polder_release(place) == POLDER_OK);
    CHECK(polder_follower_keep(memory, search, polder_string("here")) == POLDER_MISUSE);
    CHECK(polder_follower_forget(memory, search) == POLDER_OK && polder_follower_forget(memory, search) == POLDER_ABSENT);
    CHECK(polder_followers(memory, &followers) == POLDER_OK && followers->count == 0 && polder_release(followers) == POLDER_OK);
    CHECK(polder_changes_stop(memory) == POLDER_OK);
    CHECK(polder_follower_keep(memory, search, polder_bytes(here->text, here->length)) == POLDER_REFUSED);
    CHECK(polder_release(first) == POLDER_OK);
    CHECK(polder_changes(memory, polder_bytes(here->text, here->length), 0, &none) == POLDER_REFUSED);
    CHECK(polder_release(begin) == POLDER_OK && polder_close(caller) == POLDER_OK);
}

static void misuse_is_told(void)
{
    polder_caller caller = open_caller(), closed = open_caller(), nobody = {0}, guessed = {~0ull};
    polder_memory detached = {12345};
    const polder_reply *reply;
    polder_text ping[] = {polder_string("PING")};
    polder_text null_text = {NULL, 5}, huge = {(const uint8_t *)"x", SIZE_MAX}, empty = {NULL, 0};
    pthread_t thread;
    size_t count;
    CHECK(polder_close(closed) == POLDER_OK);
    CHECK(polder_close(closed) == POLDER_CLOSED);
    CHECK(polder_run(closed, 1, ping, &reply) == POLDER_CLOSED);
    CHECK(polder_run(nobody, 1, ping, &reply) == POLDER_CLOSED);
    CHECK(polder_run(guessed, 1, ping, &reply) == POLDER_WRONG_THREAD);
    CHECK(polder_run(caller, 0, NULL, &reply) == POLDER_REFUSED);
    CHECK(polder_run(caller, 2, NULL, &reply) == POLDER_MISUSE);
    CHECK(polder_run(caller, SIZE_MAX, ping, &reply) == POLDER_MISUSE);
    CHECK(polder_run(caller, 1, &null_text, &reply) == POLDER_MISUSE);
    CHECK(polder_run(caller, 1, &huge, &reply) == POLDER_MISUSE);
    CHECK(polder_run(caller, 1, &empty, &reply) == POLDER_REFUSED);
    CHECK(polder_string_put(caller, null_text, null_text) == POLDER_MISUSE);
    CHECK(polder_string_copy(caller, polder_string("s"), NULL, 10, NULL) == POLDER_MISUSE);
    CHECK(polder_string_see(caller, polder_string("s"), NULL, NULL) == POLDER_MISUSE);
    CHECK(polder_hear(caller, 0, NULL, NULL, &count) == POLDER_MISUSE);
    CHECK(polder_descriptor(caller, NULL) == POLDER_MISUSE);
    CHECK(polder_open(memory, NULL) == POLDER_MISUSE && polder_open(detached, &closed) == POLDER_CLOSED);
    CHECK(polder_detach(detached) == POLDER_CLOSED);
    CHECK(polder_attach(NULL, NULL, &detached) == POLDER_MISUSE);
    CHECK(polder_attach("shm:a/b/c", NULL, &detached) == POLDER_FAULT);
    CHECK(polder_attach("shm:there-is-none", &(polder_options){.only_existing = 1}, &detached) == POLDER_FAULT);
    CHECK(polder_listen(memory, 1, ping, NULL, NULL, NULL) == POLDER_MISUSE);
    CHECK(polder_run(caller, 1, ping, &reply) == POLDER_OK && polder_release(reply) == POLDER_OK);
    CHECK(polder_release(reply) == POLDER_MISUSE && polder_release((const polder_reply *)&count) == POLDER_MISUSE);
    CHECK(polder_release(NULL) == POLDER_OK);
    CHECK(polder_run(caller, 1, ping, &foreign_reply) == POLDER_OK);
    foreign = caller;
    CHECK(pthread_create(&thread, NULL, use_foreign, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK(polder_release(foreign_reply) == POLDER_OK);
    CHECK(polder_publish(caller, polder_string("left"), polder_string("m"), &reply) == POLDER_OK && reply->integer == 0);
    CHECK(polder_release(reply) == POLDER_OK);
    CHECK(polder_quit(caller, 0, NULL, NULL) == POLDER_OK && polder_run(caller, 1, ping, NULL) == POLDER_CLOSED);
    CHECK(polder_close(caller) == POLDER_OK);
}

static void a_child_goes_on_by_itself(void)
{
    polder_caller plain = open_caller(), listening = open_caller();
    const polder_reply *reply;
    int64_t sum = 0;
    int status, round;
    pid_t child;
    CHECK(polder_run(listening, 2, (polder_text[]){polder_string("SUBSCRIBE"), polder_string("c")}, NULL) == POLDER_OK);
    child = fork();
    if (child == 0) {
        CHECK(polder_hear(listening, 0, heard, NULL, NULL) == POLDER_FORKED);
        for (round = 0; round < 1000; round++)
            CHECK(polder_string_add(plain, polder_string("forked"), 1, &sum) == POLDER_OK);
        CHECK(polder_ping(plain, 0, NULL, NULL) == POLDER_OK);
        CHECK(polder_close(listening) == POLDER_OK && polder_close(plain) == POLDER_OK);
        _exit(0);
    }
    for (round = 0; round < 1000; round++)
        CHECK(polder_string_add(plain, polder_string("forked"), 1, &sum) == POLDER_OK);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(polder_string_add(plain, polder_string("forked"), 0, &sum) == POLDER_OK && sum == 2000);
    CHECK(polder_publish(plain, polder_string("c"), polder_string("m"), &reply) == POLDER_OK && reply->integer == 1);
    CHECK(polder_release(reply) == POLDER_OK);
    CHECK(polder_close(listening) == POLDER_OK && polder_close(plain) == POLDER_OK);
}

int main(int count, char **args)
{
    polder_options options = {.ceiling = 64 << 20};
    if (count != 2)
        return 2;
    CHECK(polder_attach(args[1], &options, &memory) == POLDER_OK);
    replies_are_trees();
    strings_go_the_short_way();
    batches_run_together();
    calls_wait_with_and_without_the_thread();
    messages_are_heard_here_and_elsewhere();
    what_is_committed_is_followed();
    misuse_is_told();
    a_child_goes_on_by_itself();
    CHECK(polder_detach(memory) == POLDER_OK && polder_detach(memory) == POLDER_CLOSED);
    CHECK(polder_remove(args[1]) == POLDER_OK && polder_remove(args[1]) == POLDER_FAULT);
    printf("C door: %d checks hold\n", checks);
    return 0;
}
