// The page of a fleet: each value of a label against all others.

const ASKED = ["selector", "by", "unit", "phase", "quantile", "alpha", "min_effect"];

etq.pageOfFleet = async () => {
  const text = (name, label, placeholder, more = {}) => etq.field(label, etq.element("input", { type: "search", name, placeholder, autocomplete: "off", spellcheck: "false", ...more }));
  const form = etq.element("form", { class: "bar", onsubmit: (event) => {
    event.preventDefault();
    etq.setParameters(Object.fromEntries(new FormData(form)));
    load();
  } },
  text("selector", "captures", "all: model=mlp,build=140", { list: "selectors", size: 34 }), text("by", "by", "device", { list: "keys" }), etq.element("button", { type: "submit", class: "main", text: "Show" }));

  // Only captures of one model can be compared. If there are several models, the page offers a choice.
  const models = etq.element("nav", { class: "chips", "aria-label": "Models" });
  function offer(found) {
    const texts = found?.labels.get("model")?.texts ?? [];
    const { selector } = etq.parameters();
    models.replaceChildren(...(texts.length < 2 ? [] : texts).map((text) => {
      const chosen = etq.selectorOf([["model", text]]);
      return etq.element("button", { type: "button", "aria-pressed": String(selector === chosen), text: etq.printable(text), onclick: () => {
        etq.setParameters({ selector: chosen });
        load();
      } });
    }));
    return texts.length > 1 && !selector;
  }

  async function load() {
    const parameters = etq.parameters();
    if (offer(await known)) {
      etq.clear();
      document.getElementById("head").append(etq.element("h1", { text: "Fleet" }), etq.themeButton());
      etq.state("Choose a model.");
      document.documentElement.dataset.ready = "yes";
      return;
    }
    for (const input of form.querySelectorAll("input")) input.value = parameters[input.name] ?? "";
    await etq.work("Comparing each with all others…", async (signal) => {
      const report = await etq.ask("fleet", Object.fromEntries(ASKED.map((name) => [name, parameters[name]])), signal);
      etq.clear();
      etq.drawReport(report);
      etq.showSection();
      document.title = `Fleet: ${etq.printable(report.title)} · ${document.title.split(" · ").at(-1)}`;
    });
  }

  document.getElementById("tools").append(form, models);
  const known = etq.captures().catch(() => null); // only suggestions
  etq.reload = load;
  etq.onStep(load);
  known.then((found) => found && document.body.append(etq.suggestions(found), etq.element("datalist", { id: "keys" }, ...[...found.labels.keys()].map((value) => etq.element("option", { value })))));
  await load();
};
