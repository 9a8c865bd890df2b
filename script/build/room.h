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

/* mlua expects that memory fails only while a limit of memory is in force: elsewhere its calls into Lua are not protected, and an
** error would jump over frames of Rust, or end the process where nothing catches it. This is the head of mlua's `MemoryState`
** (src/memory.rs): bytes in use, the limit or 0, whether the limit is ignored for now. */
struct room_state {
  ptrdiff_t used, limit;
  unsigned char ignores_limit;
};

static inline int lacks_room (const void *ud, size_t total, size_t osize, size_t nsize) {
  const struct room_state *state = ud;
  size_t after = total - osize + nsize;
  return nsize > osize && after >> ROOM_STEP > total >> ROOM_STEP && state->limit > 0 && !state->ignores_limit && !polder_has_room(nsize);
}

#endif
