// Adds a series to an overview: a form where pages may change overviews, the command elsewhere.

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// The parameters of a series of the page of trends, as `trend` has them; those that are as usual are left out.
function parametersOf({ what, item = null, series }) {
  const { selector = "", over, by } = etq.parameters();
  const [chosen, own] = [etq.pairsOf(selector), etq.pairsOf(series)];
  const text = chosen && own ? etq.selectorOf(new Map([...chosen, ...own])) : [selector, series].filter(Boolean).join();
  return Object.fromEntries(Object.entries({ what, item, selector: text, over, by }).filter(([, value]) => value));
}

function commandOf({ what, item, selector, over, by }) {
  const options = Object.entries({ [what]: item, over, by }).filter(([, value]) => value).map(([name, value]) => `--${name}=${quoted(value)}`);
  return ["etq overview NAME", selector ? `--add=${quoted(selector)}` : "--add", ...options, `--db ${quoted(etq.source)}`].join(" ");
}

etq.overviewLink = (name, parameters = {}) => `/overview?${new URLSearchParams({ name, ...parameters })}`;

// Names of the overviews that there are, for inputs to complete.
let listed = null;
async function listNames() {
  listed ??= etq.ask("overviews").then(({ items }) => {
    const names = new Set(new etq.Table(items).list("overview"));
    document.body.append(etq.element("datalist", { id: "overviews" }, ...[...names].map((value) => etq.element("option", { value }))));
  });
  await listed.catch(() => { listed = null; }); // only suggestions
}

// A control after a chart; of() is what the chart shows: what, item, series.
etq.watchControl = (parent, of) => {
  const content = etq.element("div", { class: "watching" });
  const box = etq.element("details", { class: "watch" }, etq.element("summary", { text: "Watch" }), content);
  box.addEventListener("toggle", () => {
    if (!box.open) return;
    if (!of()) {
      content.replaceChildren("A time on devices is added to an overview by: ", etq.element("code", { text: `etq overview NAME --add --op 'OP on devices' --db ${quoted(etq.source)}` }));
      return;
    }
    if (!etq.edits) {
      content.replaceChildren("To add this to an overview: ", etq.element("code", { text: commandOf(parametersOf(of())) }));
      return;
    }
    listNames();
    const name = etq.element("input", { type: "text", list: "overviews", required: true, autocomplete: "off", maxlength: 120 });
    const state = etq.element("span", { role: "status" });
    content.replaceChildren(etq.element("form", { class: "bar", onsubmit: async (event) => {
      event.preventDefault();
      state.textContent = "Adding…";
      const overview = name.value.trim();
      try {
        await etq.edit({ overview, ...parametersOf(of()) });
        state.replaceChildren("Added to ", etq.element("a", { href: etq.overviewLink(overview), text: overview }));
      } catch (error) {
        state.textContent = etq.printable(error.message);
      }
    } }, etq.field("overview", name), etq.element("button", { type: "submit", text: "Add" }), state));
    name.focus();
  });
  parent.append(box);
};
