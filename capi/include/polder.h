/* Polder: a Redis-compatible key-value store in shared memory, in this process. Made by `cargo x docs`; do not edit.
 *
 * Every function returns a polder_status; polder_message() returns the error text, for the calling thread.
 *
 * Threads: any thread may use memories and listeners. A caller belongs to its thread: in another one its functions fail
 * (POLDER_WRONG_THREAD). The thread that got a reply releases it. Closed handles fail (POLDER_CLOSED); handles are
 * numbers, so neither does harm.
 *
 * Arguments must lie where they are said to lie, and must not be changed by other threads during a call. NULL with a
 * length, and impossible sizes, fail (POLDER_MISUSE). Callbacks must return: no longjmp, no C++ exception.
 *
 * fork: a child may continue with memories and callers, which get a seat of their own; a caller that listened or waited
 * stays the parent's (POLDER_FORKED). Replies that the parent had are copied like all of its memory.
 */

#ifndef POLDER_H
#define POLDER_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/**
 * What a function returns. `polder_message` has the text to everything but `POLDER_OK`.
 */
typedef enum polder_status {
  POLDER_OK = 0,
  /**
   * The command says no; the text begins with its code (`WRONGTYPE`, `ERR`, ...).
   */
  POLDER_REFUSED = 1,
  /**
   * The memory, the system or another process failed.
   */
  POLDER_FAULT = 2,
  /**
   * The call waits: `polder_resume` goes on with it.
   */
  POLDER_WAITING = 3,
  /**
   * The key is not there.
   */
  POLDER_ABSENT = 4,
  /**
   * NULL where something is needed, an impossible size, a reply that is not one, a caller that is in use by its own callback.
   */
  POLDER_MISUSE = 5,
  /**
   * The caller is another thread's.
   */
  POLDER_WRONG_THREAD = 6,
  /**
   * The handle has been closed, or the caller has been ended by CLIENT KILL or QUIT.
   */
  POLDER_CLOSED = 7,
  /**
   * The caller listened or waited when the process was forked: it is the parent's.
   */
  POLDER_FORKED = 8,
  /**
   * Messages came faster than they were heard, and some are lost.
   */
  POLDER_LOST = 9,
  /**
   * The room is too small; the length that is needed has been told.
   */
  POLDER_TOO_SMALL = 10,
  /**
   * A defect of Polder. The caller that was in use is closed.
   */
  POLDER_PANIC = 11,
  /**
   * The server has not seen the call: it may be made again (polder_client.h).
   */
  POLDER_NOT_SENT = 12,
  /**
   * The call was written, and the connection broke before its reply: the server may have run it (polder_client.h).
   */
  POLDER_OUTCOME_UNKNOWN = 13,
  /**
   * The deadline passed first; `polder_client_stage` says where the call was (polder_client.h).
   */
  POLDER_TIMED_OUT = 14,
} polder_status;

/**
 * What a reply is.
 */
typedef enum polder_type {
  POLDER_NULL = 0,
  /**
   * A short text such as OK.
   */
  POLDER_STATUS = 1,
  /**
   * An error among other replies; its code first.
   */
  POLDER_ERROR = 2,
  POLDER_INTEGER = 3,
  POLDER_DOUBLE = 4,
  /**
   * `integer` is 0 or 1.
   */
  POLDER_BOOLEAN = 5,
  POLDER_TEXT = 6,
  /**
   * A number that may not fit, as decimal text.
   */
  POLDER_BIG_NUMBER = 7,
  POLDER_ARRAY = 8,
  /**
   * `items` are keys and values in turn, `count` of both together.
   */
  POLDER_MAP = 9,
  POLDER_SET = 10,
  /**
   * Something that was not asked for: a message, an invalidation.
   */
  POLDER_PUSH = 11,
} polder_type;

/**
 * To a memory what a connection is to a server: a database, an open MULTI, subscriptions. The thread that opened it uses it.
 */
typedef struct polder_caller {
  uint64_t handle;
} polder_caller;

/**
 * Some bytes, which may be any. They need not end with a NUL.
 */
typedef struct polder_text {
  const uint8_t *bytes;
  size_t length;
} polder_text;

/**
 * A reply, or a part of one. It lives until its root is released, or, in a callback, until that returns.
 */
typedef struct polder_reply {
  enum polder_type kind;
  /**
   * Of integers and booleans; a double without its fraction.
   */
  int64_t integer;
  double number;
  /**
   * Of everything that is text; not ended by a NUL.
   */
  const uint8_t *text;
  size_t length;
  /**
   * Of arrays, maps, sets and pushes.
   */
  const struct polder_reply *items;
  size_t count;
} polder_reply;

/**
 * Is shown a message; `message` lives until it returns.
 */
typedef void (*polder_heard)(void *context, const struct polder_reply *message);

/**
 * An attached memory. Any thread may use it.
 */
typedef struct polder_memory {
  uint64_t handle;
} polder_memory;

/**
 * How to attach. All zeros are the defaults.
 */
typedef struct polder_options {
  /**
   * The most bytes the segment may grow to, where it is made; 0: three quarters of the machine's memory.
   */
  uint64_t ceiling;
  /**
   * Not 0: fails where there is no such segment, and makes none.
   */
  int32_t only_existing;
  /**
   * The permission bits of a segment that is made; 0: the owner's alone.
   */
  uint32_t mode;
  /**
   * Whose segment is attached, beside those of the process's own user and of root: a user's name or number, or "any"; NULL: no
   * other user's. The owner of a segment controls each process that attaches it.
   */
  const char *owner;
} polder_options;

/**
 * A thread of Polder's that listens and calls back. Any thread may stop it.
 */
typedef struct polder_listener {
  uint64_t handle;
} polder_listener;

/**
 * Is shown the string in a key where it lies; NULL where there is none. It must not call Polder, and must not keep the address.
 */
typedef void (*polder_seen)(void *context, const uint8_t *bytes, size_t length);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Runs a call, the command's name first. `reply` gets the reply, to be released; NULL if it is not wanted. A call that waits (BLPOP) blocks the
 * thread. If the command replies with an error, the function returns POLDER_REFUSED and gives no reply.
 */
enum polder_status polder_run(struct polder_caller caller,
                              size_t count,
                              const struct polder_text *args,
                              const struct polder_reply **reply);

/**
 * As `polder_run`, with further arguments behind the first ones.
 */
enum polder_status polder_run_more(struct polder_caller caller,
                                   size_t count,
                                   const struct polder_text *args,
                                   size_t more_count,
                                   const struct polder_text *more,
                                   const struct polder_reply **reply);

/**
 * Releases a reply with all its parts. What was released already is told (POLDER_MISUSE) and does no harm.
 */
enum polder_status polder_release(const struct polder_reply *reply);

/**
 * Adds a call to the caller's batch. The arguments are copied.
 */
enum polder_status polder_batch_add(struct polder_caller caller, size_t count, const struct polder_text *args);

/**
 * Runs the calls of the batch, their cache misses taken together, and empties it. The reply is an array of theirs, errors among them. With
 * `atomically` they are one transaction: all or none, with no other call between them; the reply is NULL when a watched key has changed.
 */
enum polder_status polder_batch_run(struct polder_caller caller, int atomically, const struct polder_reply **reply);

/**
 * Empties the batch.
 */
enum polder_status polder_batch_clear(struct polder_caller caller);

/**
 * Begins a call without blocking the thread; POLDER_WAITING: it waits. `polder_resume` goes on with it when the descriptor is readable, or when its
 * timeout has passed. The descriptor does not become readable in two cases: when a CLIENT PAUSE ends, and when the process whose turn it is has
 * stopped. So call `polder_resume` at least once a second.
 */
enum polder_status polder_start(struct polder_caller caller,
                                size_t count,
                                const struct polder_text *args,
                                const struct polder_reply **reply);

/**
 * Goes on with a call that was begun: POLDER_WAITING says that it still waits.
 */
enum polder_status polder_resume(struct polder_caller caller, const struct polder_reply **reply);

/**
 * Ends a call that was begun and waits.
 */
enum polder_status polder_cancel(struct polder_caller caller);

/**
 * Calls `heard` for each message that has come for the caller (after SUBSCRIBE, CLIENT TRACKING, MONITOR), and waits at most `timeout_ms` for one to
 * come. `heard_count` (may be NULL) gets how many there were. `heard` may use other callers, but not this one.
 */
enum polder_status polder_hear(struct polder_caller caller,
                               uint64_t timeout_ms,
                               polder_heard heard,
                               void *context,
                               size_t *heard_count);

/**
 * A file descriptor that is readable when a message has come for a caller of this thread, or a call that was begun can go on. Then look at all callers
 * of the thread (`polder_hear` with a timeout of 0, `polder_resume`). It is level-triggered, must not be read, and is closed with the caller.
 */
enum polder_status polder_descriptor(struct polder_caller caller,
                                     int *descriptor);

/**
 * Tells what is committed to a memory behind a position, at most `count` transactions (0: all that there are), in the order of the commits. The reply,
 * to be released, is an array of transactions: each an array of the position behind it (a text, to be kept and given to the next call) and of an array
 * of its commands; a command is an array of its database (an integer), its name and its arguments. Nothing left: the array is empty.
 *
 * With an empty position it begins now: the change log of the memory is turned on, which costs every write something until
 * `polder_changes_stop`, and the reply is one transaction without commands, which tells the position. A position that is not kept any more is
 * refused (POLDER_REFUSED): copy the data, and begin anew.
 */
enum polder_status polder_changes(struct polder_memory memory,
                                  struct polder_text position,
                                  size_t count,
                                  const struct polder_reply **reply);

/**
 * Turns the change log of a memory off, for all followers.
 */
enum polder_status polder_changes_stop(struct polder_memory memory);

/**
 * Keeps a follower's position under a name, and the change log of the memory from there on: up to 256 MiB of it, or an eighth of a memory that is
 * smaller than 2 GiB. The name outlives the follower and its process, until `polder_follower_forget`. At most 63 followers have a name. A position that is
 * not kept any more is refused (POLDER_REFUSED).
 */
enum polder_status polder_follower_keep(struct polder_memory memory,
                                        struct polder_text name,
                                        struct polder_text position);

/**
 * Tells the position that was kept last under a name: the reply, to be released, is its text. No such follower: POLDER_ABSENT.
 */
enum polder_status polder_follower(struct polder_memory memory, struct polder_text name, const struct polder_reply **reply);

/**
 * Tells all followers that have a name. The reply, to be released, is an array: for each an array of its name, its position, and how many bytes of the
 * stream it has not followed yet (an integer; -1: its stream has ended, or is not kept so far back).
 */
enum polder_status polder_followers(struct polder_memory memory,
                                    const struct polder_reply **reply);

/**
 * Forgets a follower: nothing is kept for it any more. No such follower: POLDER_ABSENT.
 */
enum polder_status polder_follower_forget(struct polder_memory memory, struct polder_text name);

/**
 * Attaches a segment ("shm:NAME", "sysv:NAME", "file:PATH"; a bare name means "shm:") and makes it where there is none. `options` may be NULL.
 */
enum polder_status polder_attach(const char *segment,
                                 const struct polder_options *options,
                                 struct polder_memory *memory);

/**
 * Closes the handle of a memory. Its callers and listeners go on until they are closed.
 */
enum polder_status polder_detach(struct polder_memory memory);

/**
 * Removes a segment's name and tells all attached processes.
 */
enum polder_status polder_remove(const char *segment);

/**
 * Opens a caller for the calling thread. It speaks RESP3 (maps, sets, doubles), until it is told otherwise by HELLO 2.
 */
enum polder_status polder_open(struct polder_memory memory, struct polder_caller *caller);

/**
 * Closes a caller: its subscriptions, its open MULTI and its descriptor. Its replies stay until they are released.
 */
enum polder_status polder_close(struct polder_caller caller);

/**
 * Subscribes by a command (SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE, ...) and calls `heard` for each message, one at a time, in a thread of Polder's. When
 * this returns POLDER_OK, the subscription stands.
 */
enum polder_status polder_listen(struct polder_memory memory,
                                 size_t count,
                                 const struct polder_text *args,
                                 polder_heard heard,
                                 void *context,
                                 struct polder_listener *listener);

/**
 * Ends a listener. When this returns, its callback runs no more, unless it is the callback that calls.
 */
enum polder_status polder_stop(struct polder_listener listener);

/**
 * The text to the last status of this thread that was not POLDER_OK. It stays until the next one.
 */
const char *polder_message(void);

/**
 * Copies the string in a key to `buffer`. `length` gets its length, also when the room is too small (POLDER_TOO_SMALL: nothing is copied). No such
 * key: POLDER_ABSENT.
 */
enum polder_status polder_string_copy(struct polder_caller caller,
                                      struct polder_text key,
                                      uint8_t *buffer,
                                      size_t room,
                                      size_t *length);

/**
 * Shows the string in a key where it lies, without a copy of a long value. If a writer changes it meanwhile, it is shown again: the last time
 * counts.
 */
enum polder_status polder_string_see(struct polder_caller caller,
                                     struct polder_text key,
                                     polder_seen seen,
                                     void *context);

/**
 * Gives a key a string; an expiry that it had is gone.
 */
enum polder_status polder_string_put(struct polder_caller caller, struct polder_text key, struct polder_text value);

/**
 * As `polder_string_put`, with an expiry in milliseconds since the Unix epoch.
 */
enum polder_status polder_string_put_until(struct polder_caller caller,
                                           struct polder_text key,
                                           struct polder_text value,
                                           uint64_t expiry_ms);

/**
 * Adds to the integer in a key, where an absent one counts as 0; `sum` gets the sum.
 */
enum polder_status polder_string_add(struct polder_caller caller, struct polder_text key, int64_t by, int64_t *sum);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* Room for a number as text. */
typedef struct polder_digits {
    char text[40];
} polder_digits;

/* The bytes of a C string. */
static inline polder_text polder_string(const char *string)
{
    polder_text text;
    text.bytes = (const uint8_t *)string;
    text.length = string ? strlen(string) : 0;
    return text;
}

/* Some bytes. */
static inline polder_text polder_bytes(const void *bytes, size_t length)
{
    polder_text text;
    text.bytes = (const uint8_t *)bytes;
    text.length = length;
    return text;
}

/* An integer as text, which lies in `digits`. */
static inline polder_text polder_integer(polder_digits *digits, int64_t value)
{
    snprintf(digits->text, sizeof digits->text, "%" PRId64, value);
    return polder_string(digits->text);
}

/* A double as text that reads back the same, which lies in `digits`. */
static inline polder_text polder_double(polder_digits *digits, double value)
{
    snprintf(digits->text, sizeof digits->text, "%.17g", value);
    return polder_string(digits->text);
}

#endif  /* POLDER_H */
