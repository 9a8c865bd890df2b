/* The first calls on a memory.
 *
 *     cc quick_start.c $(pkg-config --cflags --libs polder) && ./a.out shm:tour */
#include <polder.h>
#include <stdlib.h>

static void need(polder_status status)
{
    if (status != POLDER_OK) {
        fprintf(stderr, "quick_start: %s\n", polder_message());
        exit(1);
    }
}

int main(int count, char **words)
{
    const char *segment = count > 1 ? words[1] : "shm:tour";
    polder_memory memory;
    polder_caller caller;
    const polder_reply *reply;
    polder_text set[] = {polder_string("SET"), polder_string("greeting"), polder_string("hello")};
    polder_text get[] = {polder_string("GET"), polder_string("greeting")};
    need(polder_attach(segment, NULL, &memory));
    need(polder_open(memory, &caller));
    need(polder_run(caller, 3, set, NULL));
    need(polder_run(caller, 2, get, &reply));
    printf("%.*s\n", (int)reply->length, (const char *)reply->text);
    polder_release(reply);
    need(polder_close(caller));
    need(polder_detach(memory));
    return 0;
}
