/* What the tests of the C door share: a check that says where and what it was. Included after a header of Polder. */
#include <stdio.h>
#include <stdlib.h>

static int checks;

#define CHECK(truth)                                                                                        \
    do {                                                                                                    \
        checks++;                                                                                           \
        if (!(truth)) {                                                                                     \
            fprintf(stderr, "%s:%d: %s (last message: %s)\n", __FILE__, __LINE__, #truth, polder_message()); \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)
