// The page of one capture: its report, for the chosen runs, and its neighbours in its series.

etq.pageOfCapture = async () => {
  const name = etq.decoded(location.pathname.slice("/capture/".length));
  const tools = document.getElementById("tools");
  let shown = null;

  async function load() {
    const { method, runs, unit } = etq.parameters();
    await etq.work("Reading the capture…", async (signal, quiet) => {
      // Both parts are computed at the same time; the first is shown as soon as it arrives.
      const ask = (part) => etq.ask("report", { capture: name, method, runs, unit, part }, signal);
      const later = ask("rest");
      later.catch(() => {}); // awaited below
      const report = await ask("first");
      etq.clear();
      etq.drawReport(report);
      document.title = `${etq.printable(report.capture)} · ${document.title.split(" · ").at(-1)}`;
      shown = report;
      drawTools(report);
      quiet();
      const waiting = etq.element("p", { class: "muted", text: "Reading more sections…" });
      document.getElementById("sections").append(waiting);
      try {
        const { sections } = await later;
        waiting.remove();
        etq.drawSections(sections);
        etq.showSection();
      } finally {
        waiting.remove();
      }
    });
    if (shown && document.documentElement.dataset.ready === "yes") await drawNeighbours(shown);
  }

  const set = (parameter) => (value) => {
    etq.setParameters({ [parameter]: value });
    load();
  };

  function drawTools(report) {
    const { method, runs, unit } = etq.parameters();
    const isTimed = report.methods.length > 0;
    tools.replaceChildren(
      etq.element("div", { class: "bar", role: "group", "aria-label": "What the report is of" },
        ...(report.methods.length > 1 ? [etq.field("method", etq.choice("method", ["", ...report.methods], method ?? "", set("method"), { "": "all" }))] : []),
        ...(isTimed ? [etq.field("runs", etq.choice("runs", ["", "all"], runs ?? "", set("runs"), { "": "typical" }))] : []),
        etq.field("unit", etq.choice("unit", ["", "ns", "us", "ms", "s"], unit ?? "", set("unit"), { "": "auto", us: "µs" })),
        etq.element("span", { id: "neighbours" }),
        etq.element("button", { type: "button", id: "as-base", text: "Compare with…", onclick: () => location.assign(`/compare?${new URLSearchParams({ base: report.sha256 })}`) }),
      ));
  }

  async function drawNeighbours(report) {
    let series;
    try {
      series = await etq.series();
    } catch {
      return; // without an order there is no previous capture
    }
    const place = document.getElementById("neighbours");
    const [before, next] = series.neighbours(report.capture);
    const parameters = etq.parameters();
    const step = (point, text, key) => (point
      ? etq.element("a", { class: "button", rel: key, id: key, href: etq.captureLink(point.capture, null, parameters), title: `${etq.printable(point.capture)}, ${point.over ?? ""} ${etq.printable(point.label ?? "")}`, text })
      : etq.element("span", { class: "button muted", "aria-disabled": "true", text }));
    if (!series.of.has(report.capture)) return;
    place.replaceChildren(step(before, "← before", "prev"), etq.spark(series, report.capture, 180), step(next, "next →", "next"),
      ...(before ? [etq.element("a", { class: "button", id: "with-before", href: etq.compareLink(before.capture, report.capture), text: "Compare with the one before" })] : []));
    document.documentElement.dataset.series = "yes";
  }

  etq.onStep(load);
  addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "[") document.getElementById("prev")?.click();
    if (event.key === "]") document.getElementById("next")?.click();
  });
  await load();
};
