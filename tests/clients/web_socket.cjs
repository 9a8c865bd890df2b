// The package `ws` of Node.js, unmodified, against a Polder server.
//
// `web_socket.cjs HTTP-PORT`, with NODE_PATH naming the folder of the package. Prints `node ws: N passed, M failed`.
"use strict";

const assert = require("assert");
const WebSocket = require("ws");

const port = process.argv[2];

/** A socket whose messages can be awaited one by one. */
function open(protocol, options = {}) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`, protocol, options);
  const messages = [];
  const waiting = [];
  socket.on("message", (data, isBinary) => {
    const message = isBinary ? data : data.toString();
    waiting.length ? waiting.shift()(message) : messages.push(message);
  });
  const next = () => new Promise((resolve) => (messages.length ? resolve(messages.shift()) : waiting.push(resolve)));
  return new Promise((resolve, reject) => {
    socket.on("open", () => resolve({ socket, next }));
    socket.on("error", reject);
  });
}

async function json() {
  const { socket, next } = await open("json");
  socket.send('["SET","node:a","\u00e9"]');
  assert.deepStrictEqual(JSON.parse(await next()), { reply: "OK" });
  socket.send('["GET","node:a"]');
  assert.deepStrictEqual(JSON.parse(await next()), { reply: "\u00e9" });
  const long = "x".repeat(200000);
  socket.send(JSON.stringify(["ECHO", long]));
  assert.strictEqual(JSON.parse(await next()).reply, long);
  const pong = new Promise((resolve) => socket.once("pong", (data) => resolve(data.toString())));
  socket.ping("there");
  assert.strictEqual(await pong, "there");
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.close(1000);
  assert.strictEqual(await closed, 1000);
}

async function compressed() {
  const { socket, next } = await open("json", { perMessageDeflate: { clientNoContextTakeover: true, serverNoContextTakeover: true } });
  assert.ok(socket.extensions.includes("permessage-deflate"), socket.extensions);
  const text = "again and ".repeat(5000);
  socket.send(JSON.stringify(["ECHO", text]));
  assert.strictEqual(JSON.parse(await next()).reply, text);
  socket.terminate();
}

async function resp() {
  const { socket, next } = await open("resp");
  socket.send(Buffer.from("*1\r\n$4\r\nPING\r\n"));
  assert.strictEqual((await next()).toString(), "+PONG\r\n");
  socket.terminate();
}

async function messages() {
  const hears = await open("json");
  const says = await open("json");
  hears.socket.send('["SUBSCRIBE","node:news"]');
  assert.deepStrictEqual(JSON.parse(await hears.next()), { push: ["subscribe", "node:news", 1] });
  says.socket.send('["PUBLISH","node:news","hi"]');
  assert.deepStrictEqual(JSON.parse(await says.next()), { reply: 1 });
  assert.deepStrictEqual(JSON.parse(await hears.next()), { push: ["message", "node:news", "hi"] });
  hears.socket.terminate();
  says.socket.terminate();
}

async function refused() {
  await assert.rejects(open("chat"), /400/);
  await assert.rejects(open("json", { headers: { Origin: "https://evil.example" } }), /403/);
}

async function main() {
  let passed = 0;
  let failed = 0;
  for (const check of [json, compressed, resp, messages, refused]) {
    try {
      await Promise.race([check(), new Promise((_, reject) => setTimeout(() => reject(new Error("too slow")), 20000).unref())]);
      passed += 1;
    } catch (error) {
      console.log(`${check.name}: ${error.stack}`);
      failed += 1;
    }
  }
  console.log(`node ws: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

main();
