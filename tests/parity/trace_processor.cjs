// Perfetto's trace processor under node, as its user interface runs it: requests on stdin, replies on stdout, each in
// the framing of its protocol. The one argument is the folder of engine_bundle.js and trace_processor*.wasm.
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const folder = process.argv[2];
const { stdin, stdout, stderr } = process;
// The engine is made for a worker of a browser, and refuses to start where it sees node.
delete globalThis.process;
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = Object;
globalThis.importScripts = () => {};
globalThis.location = { href: "http://localhost/" };
// It loads its program from beside itself, at once.
globalThis.XMLHttpRequest = class {
  open(_, name) {
    this.name = path.basename(String(name));
  }
  send() {
    const bytes = fs.readFileSync(path.join(folder, this.name));
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }
};
for (const level of ["log", "warn", "error"]) console[level] = (...parts) => stderr.write(parts.join(" ") + "\n");

vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));
const port = { postMessage: (reply) => stdout.write(Buffer.from(reply)) };
globalThis.onmessage({ data: port });
// The engine takes a message only when it has compiled; whoever asks waits for the first reply.
const waiting = [];
let isReady = false;
const take = (data) => (isReady ? port.onmessage({ data: new Uint8Array(data) }) : waiting.push(data));
stdin.on("data", take);
const compiled = setInterval(() => {
  try {
    if (waiting.length) port.onmessage({ data: new Uint8Array(waiting[0]) });
    else return;
  } catch {
    return;
  }
  clearInterval(compiled);
  isReady = true;
  waiting.slice(1).forEach(take);
}, 20);
stdin.on("end", () => globalThis.close?.());
