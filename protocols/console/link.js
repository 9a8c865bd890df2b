// A WebSocket to the server. Replies come in the order of the requests; pushes come between them.

export class Link {
  // `listener.push(words)` hears what comes unasked, `listener.state(isOpen)` how the connection is.
  constructor(listener) {
    this.listener = listener
    this.waiting = []
    this.login = null
    this.database = 0
  }

  async open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:"
    this.socket = new WebSocket(`${scheme}//${location.host}/ws`, "json")
    this.socket.onmessage = event => this.#take(JSON.parse(event.data))
    await new Promise((done, fail) => {
      this.socket.onopen = done
      this.socket.onclose = () => fail(new Error("the server cannot be reached"))
    })
    this.socket.onclose = () => this.#lose()
    if (this.login) await this.ask("AUTH", ...this.login)
    await this.ask("PING")
    if (this.database) await this.ask("SELECT", String(this.database))
    this.listener.state(true)
  }

  // The reply to a command. An error of the server is thrown.
  ask(...words) {
    if (this.socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Error("not connected"))
    this.socket.send(JSON.stringify(words))
    return new Promise((done, fail) => this.waiting.push({ done, fail }))
  }

  // Sends a command that is answered by pushes only: SUBSCRIBE and its like.
  tell(...words) {
    this.socket.send(JSON.stringify(words))
  }

  close() {
    if (!this.socket) return
    this.socket.onclose = null
    this.socket.close()
    this.#fail()
  }

  #take(message) {
    if ("push" in message) return this.listener.push(message.push)
    const first = this.waiting.shift()
    // Only a command that is answered by pushes waits for no reply.
    if (!first) return this.listener.push(["error", message.error ?? ""])
    if ("error" in message) first.fail(new Error(message.error))
    else first.done(message.reply)
  }

  #lose() {
    this.#fail()
    this.listener.state(false)
  }

  #fail() {
    for (const { fail } of this.waiting.splice(0)) fail(new Error("the connection is closed"))
  }
}
