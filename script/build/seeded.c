/* Draws the key of `seeded.h` before anything of the program runs. */
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "seeded.h"

uint64_t polder_seed[3];

__attribute__((constructor)) static void draw_seed (void) {
  int i;
  if (getentropy(polder_seed, sizeof polder_seed) != 0) {
    /* No source of randomness: the time, the process and where the loader has put us. */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    polder_seed[0] = (uint64_t)now.tv_nsec ^ ((uint64_t)getpid() << 32);
    polder_seed[1] = (uint64_t)(uintptr_t)&now ^ ((uint64_t)now.tv_sec << 32);
    polder_seed[2] = (uint64_t)(uintptr_t)&polder_seed * 0x9e3779b97f4a7c15u;
  }
  /* A factor of zero would forget what was hashed before. */
  for (i = 0; i < 3; i++) polder_seed[i] |= 1;
}
