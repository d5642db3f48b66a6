// Signing in and out. A session has two halves: a cookie, which scripts can't read, and a key, which is sent as a header.
// The browser sends the cookie to servers on other ports of this host, too; the key is kept for this port alone.

const KEPT = "etq key";
const main = document.getElementById("main");
let key = keptKey();

function keptKey() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null; // the browser keeps nothing
  }
}

function keep(value) {
  key = value;
  try {
    if (value === null) localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, value);
  } catch {
    // This page has it until it is left.
  }
}

// As fetch(), with the key. Without a session, a form asks for a token first.
etq.fetch = async (address, options = {}) => {
  await starting;
  for (;;) {
    const sent = key;
    const answer = await fetch(address, { ...options, headers: { ...options.headers, ...(sent === null ? {} : { "x-etq-key": sent }) } });
    if (answer.status !== 401) return answer;
    if (key === sent) await asked();
  }
};

// Signs in with a token. Returns what is wrong, or null.
async function signIn(token) {
  const answer = await fetch("/login", { method: "POST", body: JSON.stringify({ token }), headers: { "content-type": "application/json" } }).catch(() => null);
  if (answer === null) return "The server does not answer; start it again with: etq serve";
  const found = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  if (answer.status === 404) return null; // nobody needs a token here
  if (!answer.ok) return found.error;
  keep(found.key);
  showKnown({ ...found, signs_out: true });
  return null;
}

// Waits until somebody has signed in by the form, which stands in the place of what the page has.
let asking = null;
function asked(wrong = "") {
  asking ??= new Promise((resolve) => {
    const input = etq.element("input", { type: "password", id: "token", autocomplete: "current-password", required: "" });
    // Password managers keep a token under a name: that of the server.
    const name = etq.element("input", { type: "text", autocomplete: "username", value: location.host, hidden: "" });
    const error = etq.element("p", { class: "missing", role: "alert", text: wrong });
    const button = etq.element("button", { class: "main", text: "Sign in" });
    const form = etq.element("form", { id: "sign-in", "aria-labelledby": "sign-in-title" }, etq.element("h1", { id: "sign-in-title", text: "Sign in" }),
      etq.element("p", { text: "Open the link that you were given, or enter your token." }), name,
      etq.element("div", { class: "bar" }, etq.element("label", { class: "field" }, etq.element("span", { class: "muted", text: "token" }), input), button), error);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      const failed = await signIn(input.value.trim());
      button.disabled = false;
      error.textContent = failed === null ? "" : etq.printable(failed);
      if (failed !== null) return;
      form.remove();
      main.classList.remove("signed-out");
      asking = null;
      resolve();
    });
    main.prepend(form);
    main.classList.add("signed-out");
    document.documentElement.dataset.ready = "sign-in";
    input.focus();
  });
  return asking;
}

async function signOut() {
  await etq.fetch("/logout", { method: "POST" }).catch(() => null);
  keep(null);
  location.reload();
}

// Shows whose warehouse this is, and who is signed in.
function showKnown({ source, user, role, edits, signs_out }) {
  etq.source = source;
  etq.edits = edits;
  const name = source.replace(/\/+$/, "").split("/").at(-1);
  const place = document.getElementById("source");
  if (place.textContent === "") document.title = `${document.title} · ${name}`;
  place.textContent = name;
  place.title = source;
  document.getElementById("who").replaceChildren(
    ...(user === null ? [] : [etq.element("span", { text: `${user} (${role}) ` })]),
    ...(signs_out ? [etq.element("button", { type: "button", class: "quiet", id: "sign-out", text: "Sign out", onclick: signOut })] : []));
}

// A link may have a token in its fragment, which is taken out of the address at once.
function tokenOfLink() {
  const found = /^#token=([^&]+)$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(history.state, "", `${location.pathname}${location.search}`);
  return decodeURIComponent(found[1]);
}

async function start() {
  const token = tokenOfLink();
  const wrong = token === null ? null : await signIn(token);
  if (wrong !== null) await asked(wrong);
}

const starting = start();
etq.known = etq.fetch("/data/me", { cache: "no-store" }).then(async (answer) => {
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  showKnown(found);
}, () => { throw new Error("the server does not answer; start it again with: etq serve"); });

addEventListener("hashchange", () => location.hash.startsWith("#token=") && location.reload());
// Another page of this browser signed in or out.
addEventListener("storage", (event) => event.key === KEPT && location.reload());
