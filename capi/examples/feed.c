/* A feed handler: writes quotes into the memory as fast as they come, each as one change, and tells who listens.
 *
 *     feed SEGMENT SYMBOL COUNT
 *
 * Any Redis client of a server on the same memory reads them (HGETALL quote:SYMBOL), and so does any process that attaches. */
#include <stdio.h>
#include <stdlib.h>

#include "polder_commands.h"

static int told(polder_status status)
{
    if (status != POLDER_OK)
        fprintf(stderr, "feed: %s\n", polder_message());
    return status == POLDER_OK;
}

static int write_quote(polder_caller caller, polder_text key, long number)
{
    polder_digits bid, ask, serial;
    polder_text set[] = {
        polder_string("HSET"), key, polder_string("bid"), polder_integer(&bid, 10000 + number % 50),
        polder_string("ask"),  polder_integer(&ask, 10001 + number % 50), polder_string("serial"), polder_integer(&serial, number),
    };
    polder_text publish[] = {polder_string("PUBLISH"), key, polder_integer(&serial, number)};
    /* Both or neither: who hears the number finds the quote. */
    return told(polder_batch_add(caller, 8, set)) && told(polder_batch_add(caller, 3, publish)) && told(polder_batch_run(caller, 1, NULL));
}

int main(int count, char **args)
{
    polder_memory memory;
    polder_caller caller;
    char key[64];
    long number, most;
    if (count != 4) {
        fprintf(stderr, "feed SEGMENT SYMBOL COUNT\n");
        return 2;
    }
    if (!told(polder_attach(args[1], NULL, &memory)) || !told(polder_open(memory, &caller)))
        return 1;
    snprintf(key, sizeof key, "quote:%s", args[2]);
    most = atol(args[3]);
    for (number = 1; number <= most; number++)
        if (!write_quote(caller, polder_string(key), number))
            return 1;
    printf("%ld quotes of %s\n", most, args[2]);
    return !told(polder_close(caller)) || !told(polder_detach(memory));
}
