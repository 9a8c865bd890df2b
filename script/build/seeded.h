/* The hash by which Lua's strings are found: keyed, over every byte, 24 bits.
**
** Lua's own hash has no key and looks at every n-th byte of a long string, so a client can send strings that share one
** chain of the string table. This one has a key that is drawn when the process starts. Lua's own hash stays beside it
** for the order of small tables, which scripts can see (`pairs`, `cjson.encode`).
**
** Each step multiplies two words of 64 bits, each combined with a secret one, and folds the product. Without the
** secret no step can be made zero, so no two texts are known to collide.
*/
#ifndef polder_seeded_h
#define polder_seeded_h

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A string's length and its seeded hash share one word. */
#define SEEDED_BITS 24
#define LENGTH_BITS 40

/* Tables of up to 2^SMALL_TABLE nodes are in the order of Lua's own hash: no chain of theirs is longer. */
#define SMALL_TABLE 6

extern uint64_t polder_seed[3];

static inline uint64_t seeded_fold (uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t seeded_load (const unsigned char *from, size_t bytes) {
  uint64_t word = 0;
  memcpy(&word, from, bytes);
  return word;
}

static inline unsigned int seeded_hash (const void *text, size_t length) {
  const unsigned char *s = text;
  size_t left = length;
  uint64_t a, b, h = polder_seed[0] ^ length;
  for (; left > 16; left -= 16, s += 16)
    h = seeded_fold(seeded_load(s, 8) ^ polder_seed[1], seeded_load(s + 8, 8) ^ h);
  if (left >= 8) {
    a = seeded_load(s, 8);
    b = seeded_load(s + left - 8, 8);
  }
  else if (left >= 4) {
    a = seeded_load(s, 4);
    b = seeded_load(s + left - 4, 4);
  }
  else {
    a = left ? ((uint64_t)s[0] << 16) | ((uint64_t)s[left / 2] << 8) | s[left - 1] : 0;
    b = 0;
  }
  h = seeded_fold(a ^ polder_seed[1], b ^ h);
  return (unsigned int)(seeded_fold(h, polder_seed[2]) >> (64 - SEEDED_BITS));
}

#endif
