// The page of two sides: fields to choose them, and the report of their difference.

const OPTIONS = ["unit", "phase", "history", "quantile", "alpha", "min_effect", "allow_mismatch"];

etq.pageOfComparison = async () => {
  const tools = document.getElementById("tools");
  const boxes = {};
  let captures = null;

  function side(name, title) {
    const input = etq.element("input", { type: "search", name, list: "selectors", autocomplete: "off", spellcheck: "false", placeholder: "build=41, a name, a hash, @previous", "aria-label": `Captures of the side ${name}`, value: etq.parameters()[name] ?? null });
    const facets = etq.element("div", { class: "facets" });
    const draw = etq.facets(facets, (text) => {
      input.value = text;
      count();
    });
    const counted = etq.element("span", { class: "muted", id: `${name}-count` });
    const details = etq.element("details", { class: "chooser" }, etq.element("summary", { text: "Choose by labels" }), facets);
    async function count() {
      if (!captures) return;
      const text = input.value.trim();
      try {
        const { kept, pairs } = await etq.chosenBy(captures, text);
        if (text !== input.value.trim()) return;
        const number = kept.reduce((sum, each) => sum + each, 0);
        counted.textContent = text === "" ? "" : `${etq.number(number)} ${number === 1 ? "capture" : "captures"}`;
        counted.classList.remove("wrong");
        if (details.open) draw(captures, pairs, kept);
      } catch (error) {
        counted.textContent = etq.printable(error.message);
        counted.classList.add("wrong");
        if (details.open) draw(captures, null, new Uint8Array(captures.length).fill(1));
      }
    }
    details.addEventListener("toggle", count);
    input.addEventListener("input", count);
    boxes[name] = { input, count };
    return etq.element("div", { class: `side-of side-${name}` }, etq.element("label", {}, etq.element("strong", { text: title }), input), counted, details);
  }

  const form = etq.element("form", { class: "sides", onsubmit: (event) => {
    event.preventDefault();
    etq.setParameters({ base: boxes.base.input.value.trim(), new: boxes.new.input.value.trim() });
    load();
  } },
  side("base", "Base"), side("new", "New"),
  etq.element("div", { class: "bar" },
    etq.element("button", { type: "submit", class: "main", text: "Compare" }),
    etq.element("button", { type: "button", text: "Swap", onclick: () => {
      [boxes.base.input.value, boxes.new.input.value] = [boxes.new.input.value, boxes.base.input.value];
      form.requestSubmit();
    } }),
    etq.field("runs' quantile", etq.choice("quantile", ["", "0.5", "0.9"], etq.parameters().quantile ?? "", option("quantile"), { "": "p25", 0.5: "median", 0.9: "p90" })),
    etq.field("phase", etq.choice("phase", ["", "load", "prefill", "decode", "other"], etq.parameters().phase ?? "", option("phase"), { "": "all" }))));

  function option(name) {
    return (value) => {
      etq.setParameters({ [name]: value });
      load();
    };
  }

  async function load() {
    const parameters = etq.parameters();
    etq.clear();
    for (const name of ["base", "new"]) {
      boxes[name].input.value = parameters[name] ?? "";
      boxes[name].count();
    }
    if (!parameters.base || !parameters.new) {
      document.getElementById("head").append(etq.element("h1", { text: "Compare" }), etq.themeButton());
      etq.state(parameters.base || parameters.new ? "Choose the other side." : "Choose two sides: each is one capture or many.");
      document.documentElement.dataset.ready = "yes";
      return;
    }
    const asked = Object.fromEntries(["base", "new", ...OPTIONS].map((name) => [name, parameters[name]]));
    await etq.work("Comparing…", async (signal) => {
      const report = await etq.ask("difference", asked, signal);
      etq.clear();
      etq.drawReport(report);
      etq.showSection();
      document.title = `${etq.printable(report.title)} · ${document.title.split(" · ").at(-1)}`;
    });
  }

  tools.append(form);
  etq.onStep(load);
  const known = etq.captures().then((found) => {
    captures = found;
    document.body.append(etq.suggestions(found));
    for (const { count } of Object.values(boxes)) count();
  }).catch(() => {}); // the comparison reports what is wrong
  await load();
  await known;
  if (!captures || etq.parameters().base || etq.parameters().new) return;
  if (!captures.length) etq.state(etq.emptyText());
  else if (captures.length === 1) etq.state(`There is one capture, and a comparison needs two: add others with etq ingest FILE... --db ${etq.source}`);
  else document.getElementById("state").append(" ", etq.element("a", { id: "last-two", href: etq.compareLink("@previous", "@latest"), text: "Or compare the last capture with the one before." }));
};
