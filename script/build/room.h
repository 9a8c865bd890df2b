/* Whether the system has room for what Lua is about to take.
**
** The allocator under Lua ends the process when the system refuses memory (`ulimit -v`, overcommit). So Lua asks before it
** crosses each multiple of ROOM_STEP: a script that the system cannot feed fails with "not enough memory", and the server goes on.
*/
#ifndef polder_room_h
#define polder_room_h

#include <stddef.h>

/* Growth between two questions, and what an interpreter takes without one. */
#define ROOM_STEP 20

/* Address space that must be left beside what is asked for: the allocator takes it in aligned pieces of up to 64 MiB. */
#define ROOM_SPARE ((size_t)96 << 20)

extern int polder_has_room (size_t bytes);

static inline int lacks_room (size_t total, size_t osize, size_t nsize) {
  size_t after = total - osize + nsize;
  return nsize > osize && after >> ROOM_STEP > total >> ROOM_STEP && !polder_has_room(nsize);
}

#endif
