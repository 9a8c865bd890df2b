/* A client of a server in a program with an event loop of its own: calls are made without waiting, and a descriptor tells when
 * some have ended. Each of some jobs is counted in one of four databases; then the counters are read.
 *
 *     cc jobs.c $(pkg-config --cflags --libs polder) && ./a.out redis://127.0.0.1:6379 1000 */
#include <poll.h>
#include <polder_client.h>
#include <stdlib.h>

enum { DATABASES = 4 };

static void need(polder_status status)
{
    if (status != POLDER_OK) {
        fprintf(stderr, "jobs: %s\n", polder_message());
        exit(1);
    }
}

/* A job is done: its context is the number of those that are not. */
static void done(void *context, polder_status status, const polder_reply *reply)
{
    (void)reply;
    need(status);
    --*(long *)context;
}

int main(int count, char **words)
{
    const char *url = count > 1 ? words[1] : "redis://127.0.0.1:6379";
    long jobs = count > 2 ? atol(words[2]) : 1000, open_jobs = jobs, sum = 0;
    polder_text incr[] = {polder_string("INCR"), polder_string("jobs")};
    polder_text get[] = {polder_string("GETDEL"), polder_string("jobs")};
    polder_client client;
    struct pollfd ready = {0, POLLIN, 0};
    need(polder_client_connect(url, &client));
    need(polder_client_descriptor(client, &ready.fd));
    for (long job = 0; job < jobs; job++) {
        /* Held: all jobs are written together. */
        polder_call_options options = {.database = job % DATABASES, .is_held = 1, .timeout_ms = 10000};
        need(polder_client_submit(client, &options, 2, incr, done, &open_jobs, NULL));
    }
    need(polder_client_flush(client));
    while (open_jobs > 0) {
        /* Other descriptors of the program would stand beside this one. */
        poll(&ready, 1, -1);
        need(polder_client_process(client, NULL));
    }
    for (uint32_t database = 0; database < DATABASES; database++) {
        polder_call_options options = {.database = database};
        const polder_reply *reply;
        char digits[24];
        need(polder_client_run(client, &options, 2, get, &reply));
        /* A text of a reply has a length, and no NUL at its end. */
        snprintf(digits, sizeof digits, "%.*s", (int)reply->length, reply->kind == POLDER_TEXT ? (const char *)reply->text : "0");
        sum += atol(digits);
        need(polder_release(reply));
    }
    printf("%ld of %ld jobs\n", sum, jobs);
    need(polder_client_close(client));
    return 0;
}
