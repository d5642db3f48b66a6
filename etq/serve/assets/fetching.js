// Data from this server: answers are JSON; an error is shown in the words of the command line.

const page = document.body.dataset.page;
const state = document.getElementById("state");
etq.page = page;

// Seconds before a request is repeated. A busy server answers 503. A server whose process has ended doesn't answer
// until the next process runs.
const BUSY = { waits: [1, 2, 4] };
// Requests that aren't repeated: SQL may have ended the process.
const ONCE = new Set(["sql"]);

class Failure extends Error {
  constructor(message, status, place = "") {
    super(message);
    this.status = status;
    this.place = place;
  }
}

// Like fetch(); opens the sign-in form if nobody is signed in.
etq.fetch = async (address, options = {}) => {
  const answer = await fetch(address, options);
  if (answer.status === 401) location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
  return answer;
};

// Shows the warehouse's name, and who is signed in.
etq.known = etq.fetch("/data/me", { cache: "no-store" }).then(async (answer) => {
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  etq.source = found.source;
  const name = found.source.replace(/\/+$/, "").split("/").at(-1);
  const place = document.getElementById("source");
  document.title = `${document.title} · ${name}`;
  place.textContent = name;
  place.title = found.source;
  if (!found.asks_sql) document.querySelector('nav.pages a[href="/sql"]').remove();
  if (found.user === null) return;
  document.getElementById("who").replaceChildren(etq.element("span", { text: `${found.user} ` }),
    etq.element("form", { method: "post", action: "/sign-in" }, etq.element("button", { class: "quiet", id: "sign-out", text: "Sign out" })));
}, () => { throw new Error("the server does not answer; start it again with: etq serve"); });

// The answer to a question; `signal` cancels it. Raises an error with the server's message.
etq.ask = async (question, parameters = {}, signal = undefined) => {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const address = `/data/${question}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
  for (let attempt = 0; ; attempt += 1) {
    let answer;
    try {
      answer = await etq.fetch(address, { signal, cache: "no-cache", headers: { accept: "application/json" } });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (ONCE.has(question)) throw new Failure("the server does not answer: this query may have ended its process, and another one starts within seconds", 0);
      if (attempt >= BUSY.waits.length) throw new Failure("the server does not answer; start it again with: etq serve", 0);
      await new Promise((resolve) => setTimeout(resolve, BUSY.waits[attempt] * 1000));
      continue;
    }
    if (answer.ok) return answer.json();
    const found = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
    const isBusy = answer.status === 503 && answer.headers.has("retry-after") && attempt < BUSY.waits.length;
    if (!isBusy) throw new Failure(found.error, answer.status, found.place);
    await new Promise((resolve) => setTimeout(resolve, BUSY.waits[attempt] * 1000));
  }
};

// Saves an answer as a file, or shows the error.
etq.download = async (address, name) => {
  try {
    const answer = await etq.fetch(address);
    if (!answer.ok) throw new Failure((await answer.json()).error, answer.status);
    const link = etq.element("a", { href: URL.createObjectURL(await answer.blob()), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  } catch (error) {
    etq.state(error instanceof Failure ? error.message : "the server does not answer; start it again with: etq serve", true);
  }
};

// Does the work of a page, and shows its progress or its error. New work cancels the previous one. work(signal, quiet)
// calls quiet() as soon as the page has something to look at.
let current = null;
etq.work = async (text, work) => {
  current?.abort();
  const mine = new AbortController();
  current = mine;
  const begin = performance.now();
  const show = () => etq.state(`${text} ${performance.now() - begin > 3000 ? `${Math.round((performance.now() - begin) / 1000)} s` : ""}`.trim());
  const delay = setTimeout(show, 150);
  const ticking = setInterval(() => performance.now() - begin > 3000 && show(), 1000);
  document.documentElement.dataset.ready = "no";
  const quiet = () => {
    clearTimeout(delay);
    clearInterval(ticking);
  };
  try {
    const result = await work(mine.signal, () => {
      quiet();
      etq.state("");
    });
    if (current === mine) {
      etq.state("");
      document.documentElement.dataset.ready = "yes";
    }
    return result;
  } catch (error) {
    if (error.name !== "AbortError" && current === mine) {
      etq.state(error.message, true);
      // The place of an error in a query: the line with the error, and below it a line that points at the place.
      if (error.place) state.append(etq.element("pre", {}, error.place.split("\n").map((line) => etq.printable(line)).join("\n")));
      const head = document.getElementById("head");
      if (!head.firstChild) head.append(etq.element("h1", { text: document.title.split(" · ")[0] }), etq.themeButton());
      document.documentElement.dataset.ready = "failed";
      if (!(error instanceof Failure)) throw error;
    }
    return null;
  } finally {
    quiet();
  }
};

etq.state = (text, isError = false) => {
  state.textContent = etq.printable(text);
  state.classList.toggle("missing", isError);
  state.hidden = text === "";
};

etq.emptyText = () => `The warehouse is empty: add captures with etq ingest FILE... --db ${etq.source}`;

// A text of an address without its escapes; a text that is no escape stays.
etq.decoded = (text) => text.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
  try {
    return decodeURIComponent(escapes);
  } catch {
    return escapes;
  }
});

// The page's parameters, from its address.
etq.parameters = () => Object.fromEntries(new URLSearchParams(location.search));

// Sets parameters; empty ones are left out. Adds a step to the browser's history, unless it replaces the current one.
etq.setParameters = (changes, { replace = false } = {}) => {
  const found = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") found.delete(name);
    else found.set(name, value);
  }
  const text = found.toString();
  const address = `${location.pathname}${text ? `?${text}` : ""}${location.hash}`;
  if (address === `${location.pathname}${location.search}${location.hash}`) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  shown = location.search;
};

// Calls act() after a step back or forward to other parameters. Links within the page are steps, too, but change no
// parameters.
let shown = location.search;
etq.onStep = (act) => addEventListener("popstate", () => {
  if (location.search === shown) return;
  shown = location.search;
  act();
});

// Shows the section that the link names, once it is drawn.
etq.showSection = () => {
  if (location.hash.length > 1) requestAnimationFrame(() => document.getElementById(etq.decoded(location.hash.slice(1)))?.scrollIntoView());
};

// Discards the page's content, so that it can be drawn again.
etq.clear = () => {
  for (const id of ["head", "contents", "sections", "foot"]) document.getElementById(id).replaceChildren();
  etq.redraws.clear();
};

// The link of a capture: by its name if a path can contain it, otherwise by its hash.
etq.captureLink = (name, sha256 = null, parameters = {}) => {
  const plain = /^[A-Za-z0-9_][\w.-]*(\/[A-Za-z0-9_][\w.-]*)*$/.test(name) || sha256 === null;
  const given = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
  return `/capture/${(plain ? name : sha256).split("/").map(encodeURIComponent).join("/")}${given ? `?${given}` : ""}`;
};

etq.compareLink = (base, newer) => `/compare?${new URLSearchParams({ base, new: newer })}`;

// A form of one line: labelled fields in a row.
etq.field = (text, control) => etq.element("label", { class: "field" }, etq.element("span", { class: "muted", text }), control);

etq.choice = (name, values, chosen, act, titles = {}) => {
  const select = etq.element("select", { name, onchange: () => act(select.value) });
  for (const value of values) {
    const option = etq.element("option", { value, text: titles[value] ?? value });
    option.selected = value === chosen;
    select.append(option);
  }
  return select;
};
