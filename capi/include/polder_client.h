/* A client of Polder, Redis and Valkey servers: one connection carries the calls of all threads. Made by `cargo x docs`; do
 * not edit. docs/client.md has an introduction.
 *
 *     polder_client client;
 *     polder_text get[] = {polder_string("GET"), polder_string("greeting")};
 *     polder_client_connect("redis://127.0.0.1:6379", &client);
 *     polder_client_submit(client, NULL, 2, get, show, NULL, NULL);
 *     polder_client_wait(client, -1, NULL);               (or process, when the descriptor is readable)
 *
 * Every function returns a polder_status; polder_message() returns the error text, for the calling thread. The text of
 * POLDER_TIMED_OUT says at which stage the call was, with the figures that show why.
 *
 * What to free: a reply that a function gave, with polder_release(), in the thread that got it; never one that a callback is
 * shown. Arguments are copied, so they are the program's at once. A client, with polder_client_close().
 *
 * Threads: any thread may use a client. Callbacks run only inside polder_client_process(), polder_client_wait() and
 * polder_client_close(), in the thread that calls these; they may call any function. They must return: no longjmp, no C++
 * exception.
 *
 * fork: a client is the parent's (POLDER_FORKED); a child connects again.
 */

#ifndef POLDER_CLIENT_H
#define POLDER_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include "polder.h"

/**
 * Names are channels.
 */
#define POLDER_CHANNELS 0

/**
 * Names are patterns of channels (`news.*`).
 */
#define POLDER_PATTERNS 1

/**
 * Names are shard channels (SPUBLISH).
 */
#define POLDER_SHARDS 2

/**
 * Fails with POLDER_NOT_SENT while the connection is down or the queue is full.
 */
#define POLDER_FAIL_FAST 1

/**
 * Waits in the queue; fails with POLDER_NOT_SENT when the queue is full.
 */
#define POLDER_QUEUE 2

/**
 * Waits in the queue; while that is full, waits for room.
 */
#define POLDER_BLOCK 3

/**
 * What a subscription hears.
 */
typedef enum polder_event {
  /**
   * The server has confirmed all names: what is published from now on is heard.
   */
  POLDER_READY = 0,
  /**
   * A message: `reply` is an array of its channel, the pattern that matched (or null), and its payload.
   */
  POLDER_MESSAGE = 1,
  /**
   * Messages may have been lost before this: read again what they are about.
   */
  POLDER_MISSED = 2,
  /**
   * The server refused to subscribe: `reply` is its error.
   */
  POLDER_UNHEARD = 3,
} polder_event;

/**
 * How far a call had come when its deadline passed.
 */
typedef enum polder_stage {
  /**
   * No call of this thread has timed out yet.
   */
  POLDER_STAGE_NONE = 0,
  /**
   * It waited to be written: the server has not seen it, and it may be made again.
   */
  POLDER_STAGE_QUEUE = 1,
  /**
   * It was being written: the network, or a server that does not read.
   */
  POLDER_STAGE_WRITE = 2,
  /**
   * It was written, and the server has sent nothing since.
   */
  POLDER_STAGE_SERVER = 3,
  /**
   * It was written, behind replies that were still coming in.
   */
  POLDER_STAGE_READER = 4,
  /**
   * The client's own thread was not run in time.
   */
  POLDER_STAGE_RUNTIME = 5,
} polder_stage;

/**
 * A connection to a server, with all that it needs beside. Any thread may use it.
 */
typedef struct polder_client {
  uint64_t handle;
} polder_client;

/**
 * Is told what was heard; `reply` is NULL where the event has none, and lives until this returns.
 */
typedef void (*polder_event_heard)(void *context, enum polder_event event, const polder_reply *reply);

/**
 * Names that a client hears.
 */
typedef struct polder_subscription {
  uint64_t handle;
} polder_subscription;

/**
 * How a call is made. NULL in its place means the database of the URL and zeros.
 */
typedef struct polder_call_options {
  /**
   * The number of the database.
   */
  uint32_t database;
  /**
   * Not 0: the call goes ahead of all that has not been written yet.
   */
  uint32_t jumps;
  /**
   * POLDER_FAIL_FAST, POLDER_QUEUE or POLDER_BLOCK; 0: as the URL says.
   */
  uint32_t policy;
  /**
   * Not 0: a call that is submitted is written with the next one that is not held, or by `polder_client_flush`.
   */
  uint32_t is_held;
  /**
   * The deadline in milliseconds from now; 0: that of the URL; below 0: none.
   */
  int64_t timeout_ms;
} polder_call_options;

/**
 * The arguments of one call of several.
 */
typedef struct polder_words {
  size_t count;
  const polder_text *args;
} polder_words;

/**
 * Is told how a call has ended: `reply` is its reply after POLDER_OK and else NULL, and lives until this returns.
 * `polder_message` has the text to every other status.
 */
typedef void (*polder_ended)(void *context, polder_status status, const polder_reply *reply);

/**
 * A call that was submitted.
 */
typedef struct polder_call {
  uint64_t number;
} polder_call;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Hears channels, patterns or shard channels (`kind`), over a connection of their own that is made anew when it breaks.
 * `heard` runs in the thread that calls `polder_client_process` or `polder_client_wait`: first of all with POLDER_READY.
 */
polder_status polder_client_subscribe(struct polder_client client,
                                      uint32_t kind,
                                      size_t count,
                                      const polder_text *names,
                                      polder_event_heard heard,
                                      void *context,
                                      struct polder_subscription *subscription);

/**
 * Ends a subscription. When this returns its callback runs no more, unless another thread is in it, or the callback calls.
 */
polder_status polder_client_unsubscribe(struct polder_client client, struct polder_subscription subscription);

/**
 * Makes a client of a server by its URL: `redis://[user[:password]@]host[:port][/database]`, `rediss://`,
 * `redis-sentinel://`, `redis-cluster://`, `unix:/path`, or `polder://shm:NAME`, with options behind `?` (docs/client.md).
 * The connection opens in the background; calls may be made at once.
 */
polder_status polder_client_connect(const char *url, struct polder_client *client);

/**
 * Closes a client. The callbacks of its calls in flight run before this returns, with POLDER_CLOSED: the server may have run
 * these calls. A callback that another thread has begun in `polder_client_process` or `polder_client_wait`, or begins at this
 * moment, is not waited for: join that thread before you free what its callbacks use. Calls that were fired are still sent, in the background; a program that ends now waits for them by
 * `polder_client_run` of PING before it closes. In a forked child, this gives up the parent's client and runs no callback.
 */
polder_status polder_client_close(struct polder_client client);

/**
 * Makes a call, the command's name first, and waits for its reply. `reply` gets it, to be released by this thread
 * (`polder_release`); NULL says that it is not wanted. `options` may be NULL. An error of the server is POLDER_REFUSED.
 */
polder_status polder_client_run(struct polder_client client,
                                const struct polder_call_options *options,
                                size_t count,
                                const polder_text *args,
                                const polder_reply **reply);

/**
 * Makes several calls that are sent together, with no other call between them, and waits for their replies: an array in their
 * order, with errors among them. Not 0 in `atomically`: they run as one transaction (MULTI and EXEC).
 */
polder_status polder_client_run_group(struct polder_client client,
                                      const struct polder_call_options *options,
                                      int atomically,
                                      size_t count,
                                      const struct polder_words *calls,
                                      const polder_reply **reply);

/**
 * Makes a call and forgets it: nothing is kept for its reply, and no error is told.
 */
polder_status polder_client_fire(struct polder_client client,
                                 const struct polder_call_options *options,
                                 size_t count,
                                 const polder_text *args);

/**
 * Makes a call without waiting. After POLDER_OK, `ended` runs once, in the thread that calls `polder_client_process`,
 * `polder_client_wait` or `polder_client_close`: free there what `context` leads to. After any other status it never runs.
 * The arguments are copied. `call` (may be NULL) gets what `polder_client_cancel` takes.
 */
polder_status polder_client_submit(struct polder_client client,
                                   const struct polder_call_options *options,
                                   size_t count,
                                   const polder_text *args,
                                   polder_ended ended,
                                   void *context,
                                   struct polder_call *call);

/**
 * As `polder_client_submit`, for several calls as in `polder_client_run_group`.
 */
polder_status polder_client_submit_group(struct polder_client client,
                                         const struct polder_call_options *options,
                                         int atomically,
                                         size_t count,
                                         const struct polder_words *calls,
                                         polder_ended ended,
                                         void *context,
                                         struct polder_call *call);

/**
 * Writes the calls that are held.
 */
polder_status polder_client_flush(struct polder_client client);

/**
 * Takes a call back. After POLDER_OK its callback does not run: the call was not sent, or its reply will be thrown away, or, if
 * it waits in the server (BLPOP), it is ended there. POLDER_CLOSED says that its callback has run, or runs in another thread.
 */
polder_status polder_client_cancel(struct polder_client client, struct polder_call call);

/**
 * A file descriptor that is readable when `polder_client_process` has something to do: for poll, epoll, or an event loop. It
 * is level-triggered, must not be read, and is closed with the client.
 */
polder_status polder_client_descriptor(struct polder_client client, int *descriptor);

/**
 * Writes the calls that are held, and runs the callbacks of calls that have ended and of events that were heard, without
 * waiting. `processed` (may be NULL) gets how many ran. If a callback forks, its return ends this with POLDER_FORKED in the
 * child, which runs no other callback.
 */
polder_status polder_client_process(struct polder_client client, size_t *processed);

/**
 * As `polder_client_process`, but waits up to `timeout_ms` (below 0: without end) until a callback has run. It returns at once
 * when there is nothing to wait for: no call in flight, and no subscription. If another thread closes the client, this returns
 * POLDER_CLOSED.
 */
polder_status polder_client_wait(struct polder_client client, int64_t timeout_ms, size_t *processed);

/**
 * How many calls have been submitted whose callbacks have not run.
 */
polder_status polder_client_in_flight(struct polder_client client, size_t *count);

/**
 * Where the call was whose POLDER_TIMED_OUT this thread was told last.
 */
enum polder_stage polder_client_stage(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* POLDER_CLIENT_H */
