/* Nanoseconds of a GET and a SET of 16 bytes by C, on keys that are there already. Run by `cargo x bench c`, which does the same in Rust.
 *
 *     door SEGMENT KEYS        prints: set get hot-set hot-get polder_get */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "polder_commands.h"

static const char VALUE[] = "0123456789abcdef";
static polder_caller caller;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static void need(polder_status status)
{
    if (status != POLDER_OK) {
        fprintf(stderr, "door: %s\n", polder_message());
        exit(1);
    }
}

static void set(polder_text key)
{
    need(polder_string_put(caller, key, polder_bytes(VALUE, 16)));
}

static void get(polder_text key)
{
    uint8_t buffer[16];
    size_t length;
    need(polder_string_copy(caller, key, buffer, sizeof buffer, &length));
}

static void get_reply(polder_text key)
{
    const polder_reply *reply;
    need(polder_get(caller, key, &reply));
    need(polder_release(reply));
}

static double timed(void (*call)(polder_text), const char *keys, size_t count)
{
    double began = now_ns();
    size_t at;
    for (at = 0; at < count; at++)
        call(polder_bytes(keys + at * 16, 16));
    return (now_ns() - began) / count;
}

int main(int argc, char **args)
{
    polder_memory memory;
    size_t count, at;
    unsigned long long state = 7;
    char *random, *hot, text[24];
    if (argc != 3)
        return 2;
    count = strtoul(args[2], NULL, 10);
    random = malloc(count * 16);
    hot = malloc(count * 16);
    need(polder_attach(args[1], NULL, &memory));
    need(polder_open(memory, &caller));
    for (at = 0; at < count; at++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        snprintf(text, sizeof text, "key:%012llu", (state >> 33) % count);
        memcpy(random + at * 16, text, 16);
        memcpy(hot + at * 16, "key:000000000001", 16);
    }
    printf("%f ", timed(set, random, count));
    printf("%f ", timed(get, random, count));
    printf("%f ", timed(set, hot, count));
    printf("%f ", timed(get, hot, count));
    printf("%f\n", timed(get_reply, hot, count));
    return 0;
}
