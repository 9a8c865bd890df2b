/* A leaderboard that any number of processes keep together.
 *
 *     leaderboard SEGMENT add PLAYER POINTS      adds points; prints the player's sum and place
 *     leaderboard SEGMENT top COUNT              prints the best */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "polder_commands.h"

static const polder_reply *need(polder_status status, const polder_reply *reply)
{
    if (status != POLDER_OK) {
        fprintf(stderr, "leaderboard: %s\n", polder_message());
        exit(1);
    }
    return reply;
}

static void add(polder_caller caller, polder_text board, const char *player, double points)
{
    const polder_reply *sum, *place;
    need(polder_zincrby(caller, board, points, polder_string(player), &sum), NULL);
    need(polder_zrevrank(caller, board, polder_string(player), 0, NULL, &place), NULL);
    printf("%s: %g points, place %lld\n", player, sum->number, (long long)place->integer + 1);
    polder_release(sum);
    polder_release(place);
}

static void top(polder_caller caller, polder_text board, long most)
{
    const polder_reply *best;
    polder_digits last;
    size_t place;
    polder_text range[] = {polder_string("ZREVRANGE"), board, polder_string("0"), polder_integer(&last, most - 1), polder_string("WITHSCORES")};
    need(polder_run(caller, 5, range, &best), NULL);
    for (place = 0; place < best->count; place++) {
        const polder_reply *pair = best->items[place].items;
        printf("%zu. %.*s %g\n", place + 1, (int)pair[0].length, (const char *)pair[0].text, pair[1].number);
    }
    polder_release(best);
}

int main(int count, char **args)
{
    polder_memory memory;
    polder_caller caller;
    polder_text board = polder_string("leaderboard");
    if (count < 4)
        return fprintf(stderr, "leaderboard SEGMENT add PLAYER POINTS | top COUNT\n"), 2;
    need(polder_attach(args[1], NULL, &memory), NULL);
    need(polder_open(memory, &caller), NULL);
    if (strcmp(args[2], "add") == 0 && count == 5)
        add(caller, board, args[3], atof(args[4]));
    else
        top(caller, board, atol(args[3]));
    need(polder_close(caller), NULL);
    need(polder_detach(memory), NULL);
    return 0;
}
