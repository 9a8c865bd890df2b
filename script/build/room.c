/* Asks the system for address space as the allocator would, and gives it back. */
#include <sys/mman.h>

#include "room.h"

int polder_has_room (size_t bytes) {
  void *room;
  if (bytes + ROOM_SPARE < bytes) return 0;
  room = mmap(NULL, bytes + ROOM_SPARE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return 0;
  munmap(room, bytes + ROOM_SPARE);
  return 1;
}
