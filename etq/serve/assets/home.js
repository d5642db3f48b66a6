// The first page of a server: the things that are slower, and all series.

etq.pageOfHome = async () => {
  const head = document.getElementById("head");
  const title = etq.element("h1", { text: "Findings" });
  const sub = etq.element("p", { class: "sub muted", role: "status" });
  head.append(title, etq.themeButton());
  const input = etq.element("input", { type: "search", name: "selector", placeholder: "Selector: model=mlp,device=pixel8", list: "selectors", autocomplete: "off", spellcheck: "false", "aria-label": "Selector of captures", size: 34 });
  const chips = etq.element("nav", { class: "chips", "aria-label": "Kinds of findings" });
  document.getElementById("tools").append(sub, etq.element("form", { class: "bar", onsubmit: (event) => {
    event.preventDefault();
    etq.setParameters({ selector: input.value.trim() });
    load();
  } }, input, chips));
  const sections = document.getElementById("sections");
  const found = etq.element("section", { "aria-label": "Findings" });
  const listed = etq.element("section", { "aria-label": "All series" });
  sections.replaceChildren(found, listed);
  const page = { causes: null, series: null, table: null, text: "" };

  const choose = (kind) => {
    etq.setParameters({ kind }, { replace: true });
    drawFindings();
  };
  function drawFindings() {
    const kind = etq.parameters().kind ?? "";
    if (page.causes) {
      title.textContent = etq.findingsText(page.causes);
      etq.slower({ list: found, chips, causes: page.causes, kind, series: page.series, table: page.table, source: etq.source, choose });
    }
  }
  function draw() {
    drawFindings();
    if (page.table) {
      listed.replaceChildren(etq.element("h2", {}, "Series"), etq.element("p", { class: "sub muted", text: page.text }));
      etq.seriesTable(listed, page.table, page.series);
    }
  }

  async function load() {
    const { selector } = etq.parameters();
    input.value = selector ?? "";
    Object.assign(page, { causes: null, series: null, table: null }); // what is drawn stays until there are answers
    await etq.work("Reading all series…", async (signal, quiet) => {
      const part = async (question, take, parent) => {
        try {
          take(await etq.ask(question, { selector }, signal));
          quiet();
        } catch (error) {
          if (error.name === "AbortError") throw error;
          parent.replaceChildren(etq.element("p", { class: "missing", role: "alert", text: etq.printable(error.message) }), etq.element("button", { text: "Try again", onclick: load }));
        }
        draw();
      };
      let overview = null;
      await part("overview", (answer) => {
        overview = answer;
        sub.textContent = answer.text;
      }, found);
      if (!overview) {
        title.textContent = "Findings";
        for (const each of [sub, chips, listed]) each.replaceChildren();
        return;
      }
      if (!overview.captures) {
        title.textContent = "No captures";
        chips.replaceChildren();
        found.replaceChildren(etq.element("p", { text: "Store some:" }), etq.element("pre", { text: `etq ingest *.etdp --label model=mlp --label device=pixel8 --label-git=. --db ${etq.source}` }));
        listed.replaceChildren();
        return;
      }
      await Promise.all([
        part("home", (answer) => {
          page.table = new etq.Table(answer.series);
          page.text = answer.judged;
        }, listed),
        part("findings", (answer) => { page.causes = answer; }, found),
        etq.series(signal, { selector }).then((series) => { page.series = series; }, () => null),
      ]);
      draw();
    });
  }

  etq.reload = load;
  etq.onStep(load);
  await load();
  etq.captures().then((all) => document.body.append(etq.suggestions(all)), () => null); // only suggestions
};
