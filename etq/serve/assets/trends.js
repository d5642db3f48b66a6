// The page of trends: the report of series. A click on a point opens its capture; Shift-clicks on two points open their
// comparison.

const OPTIONS = ["selector", "over", "by", "unit", "phase", "since", "alpha", "min_effect"];

etq.pageOfTrends = async () => {
  const tools = document.getElementById("tools");
  const text = (name, label, placeholder, list = null) => etq.field(label, etq.element("input", { type: "search", name, placeholder, list, autocomplete: "off", spellcheck: "false", value: etq.parameters()[name] ?? null }));
  const order = etq.choice("over", ["", etq.parameters().over].filter((each) => each !== undefined), etq.parameters().over ?? "", () => form.requestSubmit(), { "": "build, commit or time" });
  const form = etq.element("form", { class: "bar", onsubmit: (event) => {
    event.preventDefault();
    etq.setParameters({ ...Object.fromEntries(new FormData(form)), series: "" });
    load();
  } },
  text("selector", "captures", "all", "selectors"), etq.field("in the order of", order), text("by", "series by", "model,device,backend"), text("since", "changes since", "build, commit or time"),
  etq.element("button", { type: "submit", class: "main", text: "Show" }));
  const marked = etq.element("p", { id: "marked", class: "hint muted", role: "status" });
  let first = null;

  // Called by charts for a click on a point of a series.
  etq.pointChosen = (capture, event) => {
    if (!event.shiftKey && !first) {
      location.assign(etq.captureLink(capture));
      return;
    }
    if (!first) {
      first = capture;
      marked.textContent = `${etq.printable(capture)} is the base: click another point to compare it, or press Escape.`;
    } else {
      const base = first;
      first = null; // a step back shows this page as it was left
      hint();
      location.assign(etq.compareLink(base, capture));
    }
  };
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      first = null;
      hint();
    }
  });
  const hint = () => {
    marked.textContent = "Click a point to open its capture; click two points with Shift to compare them.";
  };
  etq.shownSeries = () => etq.parameters().series ?? null;
  etq.seriesChosen = (name) => etq.setParameters({ series: name }, { replace: true });

  async function load() {
    const parameters = etq.parameters();
    for (const input of form.querySelectorAll("input, select")) input.value = parameters[input.name] ?? "";
    await etq.work("Finding changes in all series…", async (signal) => {
      const report = await etq.ask("trends", Object.fromEntries(OPTIONS.map((name) => [name, parameters[name]])), signal);
      etq.clear();
      etq.drawReport(report);
      etq.showSection();
      document.title = `Trends: ${etq.printable(report.title)} · ${document.title.split(" · ").at(-1)}`;
      hint();
      document.getElementById("totals")?.querySelector("h2")?.after(marked);
    });
  }

  tools.append(form);
  etq.reload = load;
  etq.onStep(load);
  const known = etq.captures().then((found) => {
    document.body.append(etq.suggestions(found));
    for (const key of [...found.labels.keys(), "captured_at"]) {
      if (![...order.options].some((each) => each.value === key)) order.append(etq.element("option", { value: key, text: etq.short(key, 40) }));
    }
    return found;
  }).catch(() => null); // only suggestions
  await load();
  const found = await known;
  if (found && !found.length) etq.state(etq.emptyText());
};
