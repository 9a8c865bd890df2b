/* One process of the torture run that is written in C (see testkit/src/crash/mixed.rs):
 *
 *     actor SEGMENT FOLDER ID SEQUENCE SEED
 *
 * It notes what it means to do and what was acknowledged as the others do (crash/journal.rs, crash/tokens.rs), until its standard input
 * closes or somebody kills it. What is wrong with the memory it says on standard output and ends. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "polder_commands.h"

enum { KEYS = 64, GROUPS = 8, GROUP_KEYS = 6, SHARED_GROUPS = 4, COUNTERS = 4, ACCOUNTS = 4, QUEUES = 3, VALUE_MAX = 70000 };

static const char *TRANSFER = "redis.call('DECRBY', KEYS[1], 3 * ARGV[1]) redis.call('HINCRBY', KEYS[2], ARGV[2], ARGV[1]) "
                              "return redis.call('ZINCRBY', KEYS[3], 2 * ARGV[1], ARGV[3])";

static polder_memory memory;
static polder_caller caller;
static int journal, tokens;
static unsigned id;
static unsigned long sequence, token_number;
static uint64_t seed, nonce;

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    exit(1);
}

static void check(polder_status status, const char *what)
{
    if (status != POLDER_OK)
        fail("%s: %s", what, polder_message());
}

/* SplitMix64. */
static unsigned below(unsigned end)
{
    uint64_t bits = seed += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return (bits ^ (bits >> 31)) % end;
}

/* One write per line: SIGKILL cannot take back what the kernel has. */
static void note(int file, const char *format, ...)
{
    char line[200];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(file, line, length) != length)
        fail("a journal cannot be written");
}

/* A value that proves itself, as crash/value.rs makes it. */
static size_t make_value(char *value, const char *key, size_t length)
{
    uint64_t sum = 0xcbf29ce484222325;
    size_t at = sprintf(value, "%s|%u|%lu|%zu", key, id, sequence, length);
    for (size_t i = 0; i < at; i++)
        sum = (sum ^ (uint8_t)value[i]) * 0x100000001b3;
    at += sprintf(value + at, "|%016llx|", (unsigned long long)sum);
    for (; at < length; at++) {
        sum = sum * 6364136223846793005 + 1442695040888963407;
        value[at] = sum >> 56;
    }
    return at;
}

static size_t some_length(void)
{
    static const size_t lengths[] = {0, 30, 60, 200, 1000, 4000, 9000, VALUE_MAX};
    return lengths[below(8)];
}

static void set_key(void)
{
    static char value[VALUE_MAX + 200];
    char key[64];
    unsigned target = below(KEYS);
    snprintf(key, sizeof key, "owned:%u:%u", id, target);
    sequence++;
    note(journal, "I S %u %lu\n", target, sequence);
    polder_text args[] = {polder_string("SET"), polder_string(key), polder_bytes(value, make_value(value, key, some_length()))};
    check(polder_run(caller, 3, args, NULL), "SET");
    note(journal, "A\n");
}

static void write_group(int shared)
{
    static char values[GROUP_KEYS][9200], keys[GROUP_KEYS][64];
    polder_text args[1 + 2 * GROUP_KEYS] = {polder_string("MSET")};
    unsigned target = below(shared ? SHARED_GROUPS : GROUPS);
    sequence++;
    for (unsigned at = 0; at < GROUP_KEYS; at++) {
        if (shared)
            snprintf(keys[at], sizeof keys[at], "shared:%u:%u", target, at);
        else
            snprintf(keys[at], sizeof keys[at], "group:%u:%u:%u", id, target, at);
        args[1 + 2 * at] = polder_string(keys[at]);
        args[2 + 2 * at] = polder_bytes(values[at], make_value(values[at], keys[at], some_length() % 9001));
    }
    note(journal, "I %c %u %lu\n", shared ? 'X' : 'M', target, sequence);
    check(polder_run(caller, 1 + 2 * GROUP_KEYS, args, NULL), "MSET");
    note(journal, "A\n");
}

/* All keys of a shared group have been written by the same MSET: what follows the key in each is the same writer and number. */
static void look_at_shared(void)
{
    char keys[GROUP_KEYS][64], first[64] = "", stamp[64];
    polder_text args[1 + GROUP_KEYS] = {polder_string("MGET")};
    const polder_reply *reply;
    unsigned target = below(SHARED_GROUPS);
    for (unsigned at = 0; at < GROUP_KEYS; at++) {
        snprintf(keys[at], sizeof keys[at], "shared:%u:%u", target, at);
        args[1 + at] = polder_string(keys[at]);
    }
    check(polder_run(caller, 1 + GROUP_KEYS, args, &reply), "MGET");
    for (size_t at = 0; at < reply->count; at++) {
        const polder_reply *item = &reply->items[at];
        unsigned writer = 0;
        unsigned long number = 0;
        size_t length = strlen(keys[at]);
        if (item->kind != POLDER_NULL) {
            if (item->length < length || memcmp(item->text, keys[at], length) != 0)
                fail("%s holds the value of another key", keys[at]);
            char head[64] = "";
            memcpy(head, item->text + length, item->length - length < 60 ? item->length - length : 60);
            sscanf(head, "|%u|%lu|", &writer, &number);
        }
        snprintf(stamp, sizeof stamp, "%u %lu", writer, number);
        if (at == 0)
            strcpy(first, stamp);
        else if (strcmp(first, stamp) != 0)
            fail("a transaction is half visible in %s: %s and %s", keys[at], first, stamp);
    }
    check(polder_release(reply), "release");
}

static void count(void)
{
    char key[64];
    unsigned target = below(COUNTERS);
    snprintf(key, sizeof key, "counter:%u", target);
    sequence++;
    note(journal, "I C %u %lu\n", target, sequence);
    polder_text args[] = {polder_string("INCR"), polder_string(key)};
    check(polder_run(caller, 2, args, NULL), "INCR");
    note(journal, "A\n");
}

static void transfer(void)
{
    char account[32], field[16], member[16];
    polder_digits number, negative, twice;
    int amount = (int)below(9) - 4;
    snprintf(account, sizeof account, "account:%u", below(ACCOUNTS));
    snprintf(field, sizeof field, "f%u", below(ACCOUNTS));
    snprintf(member, sizeof member, "m%u", below(ACCOUNTS));
    if (below(2)) {
        polder_text args[] = {polder_string("EVAL"),     polder_string(TRANSFER), polder_string("3"),
                              polder_string(account),    polder_string("accounts"), polder_string("purses"),
                              polder_integer(&number, amount), polder_string(field),    polder_string(member)};
        check(polder_run(caller, 9, args, NULL), "EVAL");
        return;
    }
    polder_text from[] = {polder_string("INCRBY"), polder_string(account), polder_integer(&negative, -3 * amount)};
    polder_text to[] = {polder_string("HINCRBY"), polder_string("accounts"), polder_string(field), polder_integer(&number, amount)};
    polder_text rest[] = {polder_string("ZINCRBY"), polder_string("purses"), polder_integer(&twice, 2 * amount), polder_string(member)};
    check(polder_batch_add(caller, 3, from), "batch");
    check(polder_batch_add(caller, 4, to), "batch");
    check(polder_batch_add(caller, 4, rest), "batch");
    check(polder_batch_run(caller, 1, NULL), "EXEC");
}

static void push_token(void)
{
    char queue[16], token[80];
    snprintf(queue, sizeof queue, "queue:%u", below(QUEUES));
    snprintf(token, sizeof token, "%u.%llu.%lu", id, (unsigned long long)nonce, ++token_number);
    note(tokens, "+ %s\n", token);
    polder_text args[] = {polder_string("RPUSH"), polder_string(queue), polder_string(token)};
    check(polder_run(caller, 3, args, NULL), "RPUSH");
    note(tokens, "A\n");
}

static void pop_token(void)
{
    char queue[16];
    const polder_reply *reply, *token;
    snprintf(queue, sizeof queue, "queue:%u", below(QUEUES));
    note(tokens, "-\n");
    if (below(2)) {
        polder_text args[] = {polder_string("LPOP"), polder_string(queue)};
        check(polder_run(caller, 2, args, &reply), "LPOP");
        token = reply;
    } else {
        polder_text args[] = {polder_string("BLPOP"), polder_string(queue), polder_string("queue:0"), polder_string("0.05")};
        check(polder_run(caller, 4, args, &reply), "BLPOP");
        token = reply->kind == POLDER_NULL ? reply : &reply->items[1];
    }
    if (token->kind == POLDER_NULL)
        note(tokens, "=\n");
    else
        note(tokens, "= %.*s\n", (int)token->length, (const char *)token->text);
    check(polder_release(reply), "release");
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long heard_last;

static void heard(void *context, const polder_reply *message)
{
    (void)context;
    const polder_reply *payload = &message->items[message->count - 1];
    char text[32] = "";
    memcpy(text, payload->text, payload->length < 31 ? payload->length : 31);
    pthread_mutex_lock(&lock);
    heard_last = strtoul(text, NULL, 10);
    pthread_mutex_unlock(&lock);
}

/* Publishes a number, which our own listener must hear, in a thread of its own. */
static void talk(void)
{
    static polder_listener listener;
    static int listens;
    static unsigned long number;
    char subject[64];
    polder_digits digits;
    snprintf(subject, sizeof subject, "talk:%u:%llu", id, (unsigned long long)nonce);
    polder_text subscribe[] = {polder_string("SUBSCRIBE"), polder_string(subject)};
    if (!listens)
        check(polder_listen(memory, 2, subscribe, heard, NULL, &listener), "SUBSCRIBE");
    listens = 1;
    polder_text publish[] = {polder_string("PUBLISH"), polder_string(subject), polder_integer(&digits, ++number)};
    check(polder_run(caller, 3, publish, NULL), "PUBLISH");
    /* Fifteen seconds of our own time: while we are stopped nothing counts. */
    for (int naps = 0; naps < 7500; naps++) {
        pthread_mutex_lock(&lock);
        unsigned long last = heard_last;
        pthread_mutex_unlock(&lock);
        if (last == number)
            return;
        usleep(2000);
    }
    fail("a message was lost: %s hears %lu instead of %lu", subject, heard_last, number);
}

static int is_over(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) != 0;
}

static int opened(const char *folder, const char *name)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s-%u", folder, name, id);
    int file = open(path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0)
        fail("%s cannot be opened", path);
    return file;
}

int main(int arguments, char **argument)
{
    polder_options options = {.only_existing = 1};
    if (arguments != 6) {
        fprintf(stderr, "actor SEGMENT FOLDER ID SEQUENCE SEED\n");
        return 2;
    }
    id = atoi(argument[3]);
    sequence = strtoul(argument[4], NULL, 10);
    seed = strtoull(argument[5], NULL, 10);
    nonce = seed % 1000000000;
    journal = opened(argument[2], "journal");
    tokens = opened(argument[2], "tokens");
    check(polder_attach(argument[1], &options, &memory), "attach");
    check(polder_open(memory, &caller), "open");
    while (!is_over()) {
        unsigned drawn = below(100);
        if (drawn < 35)
            set_key();
        else if (drawn < 50)
            write_group(0);
        else if (drawn < 58)
            write_group(1);
        else if (drawn < 70)
            count();
        else if (drawn < 78)
            transfer();
        else if (drawn < 86)
            look_at_shared();
        else if (drawn < 91)
            push_token();
        else if (drawn < 97)
            pop_token();
        else
            talk();
    }
    return 0;
}
