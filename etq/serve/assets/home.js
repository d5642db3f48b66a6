// The first page: what is slower, the most costly first; then all series, with why some aren't judged.

const WIDE = 220;
const TIMES_AT = 90;

// The labels of a series: device=pixel8,model=mlp.
const partsOf = (series) => new Set(series.match(/[^,="]+=(?:"(?:[^"]|"")*"|[^,]*)/g) ?? []);

// Points on a line: the times of the series of a cause on devices, with that of the slow one.
function strip(cause, table) {
  const parts = [...partsOf(cause.series)];
  const found = table.rows().map((row) => ({ of: partsOf(table.get(row, "series")), value: table.get(row, "value"), unit: table.get(row, "unit") }))
    .filter(({ of, value }) => value !== null && parts.every((part) => of.has(part)));
  if (found.length < 2) return "";
  const values = found.map(({ value }) => value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (value) => 5 + ((WIDE - 10) * (value - low)) / (high - low || 1);
  const isSlow = ({ of }) => of.has(etq.selectorOf([["device", cause.value]]));
  return etq.element("figure", {},
    etq.svg("svg", { class: "spark strip", width: WIDE, height: 14, viewBox: `0 0 ${WIDE} 14`, role: "img", "aria-label": `times of ${found.length} series` },
      ...[...found].sort((one, other) => isSlow(one) - isSlow(other)).map((each) => etq.svg("circle", { cx: x(each.value), cy: 7, r: isSlow(each) ? 4 : 2.4, class: isSlow(each) ? "slower" : "dot" }))),
    etq.element("figcaption", {}, etq.element("span", { text: etq.quantity(low, found[0].unit) }), etq.element("span", { text: etq.quantity(high, found[0].unit) })));
}

function picture(cause, series, table) {
  if (cause.kind === "device") return table ? strip(cause, table) : "";
  const points = series?.all.get(cause.series);
  if (cause.kind !== "change" || !points) return "";
  return etq.element("figure", {}, etq.spark(series, points.at(-1).capture, WIDE, TIMES_AT), etq.element("figcaption", { text: `last ${Math.min(points.length, TIMES_AT)} captures` }));
}

function links(cause) {
  const made = [];
  const link = (text, href) => made.push(etq.element("a", { href, text }));
  if (cause.kind === "change") link("trend", `/trends?${new URLSearchParams({ selector: cause.series })}`);
  if (cause.kind === "device") link("fleet", `/fleet?${new URLSearchParams(cause.series ? { selector: cause.series } : {})}`);
  const isOfJob = cause.finding !== null;
  if (isOfJob) link("job", `/jobs?${new URLSearchParams({ selector: cause.series })}`);
  if (isOfJob && cause.captures === 1) link("capture", etq.captureLink(cause.new));
  if (cause.base && cause.new) link("compare", etq.compareLink(cause.base, cause.new));
  return made;
}

// The command that accepts a change: pages only read.
function accepting(cause) {
  if (cause.kind !== "change" || cause.is_accepted) return "";
  const op = cause.cause === "all ops" ? "" : ` --op ${quoted(cause.cause)}`;
  const command = `etq comment ${quoted(cause.first_bad)} ${quoted(cause.series)}${op} --accept "why" --db ${quoted(etq.source)}`;
  return etq.element("details", {}, etq.element("summary", { text: "accept" }), etq.element("pre", { text: etq.printable(command) }));
}

const number = (count, what) => `${etq.number(count)} ${what}${count === 1 ? "" : "s"}`;

const quoted = (text) => (/^[\w=,./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function item(cause, series, table) {
  const [to, ...rest] = links(cause);
  const title = to ? etq.element("a", { href: to.getAttribute("href"), text: etq.printable(cause.title) }) : etq.element("span", { text: etq.printable(cause.title) });
  return etq.element("li", {},
    etq.element("div", { class: "size" }, etq.element("b", { text: cause.share_percent === null ? "" : etq.change(cause.share_percent) }), etq.element("span", { text: cause.cost === null ? "" : etq.quantity(cause.cost, cause.unit) })),
    etq.element("div", {}, etq.element("h2", {}, title, etq.element("span", { class: "tag", text: cause.kind })), etq.element("p", { text: etq.sentence(etq.printable(cause.detail)) }),
      cause.comment ? etq.element("p", { class: "muted", text: etq.printable(`${cause.author ?? ""}: ${cause.comment}`.replace(/^: /, "")) }) : ""),
    etq.element("div", {}, picture(cause, series, table)),
    etq.element("div", { class: "go" }, ...(to ? [to] : []), ...rest), accepting(cause));
}

const COLUMNS = ["series", "verdict", "change_percent", "first_bad", "value", "noise_percent", "shown_percent", "captures", "reason"];

function seriesTable(parent, table, series) {
  const head = { series: "series", verdict: "verdict", change_percent: "change", first_bad: "since", value: "last", noise_percent: "noise", shown_percent: "shown by 5 builds", captures: "captures", reason: "note" };
  const numeric = new Set(["change_percent", "value", "noise_percent", "shown_percent", "captures"]);
  const rows = table.rows();
  const cell = (row, name) => {
    const value = table.get(row, name);
    if (name === "series") return etq.element("td", {}, etq.element("a", { href: `/trends?${new URLSearchParams({ ...(value ? { selector: value } : {}) })}`, text: etq.printable(value || "(no labels)") }));
    if (name === "verdict") return etq.element("td", {}, etq.verdict(value));
    if (name === "change_percent") return etq.element("td", { class: "number", text: etq.change(value) });
    if (name === "value") return etq.element("td", { class: "number", text: value === null ? "" : etq.quantity(value, table.get(row, "unit")) });
    if (name === "noise_percent" || name === "shown_percent") return etq.element("td", { class: "number", text: value === null ? "" : etq.percent(value) });
    if (name === "reason") return etq.element("td", { class: "why", text: etq.printable(value ?? table.get(row, "condition") ?? "") });
    return etq.element("td", { class: numeric.has(name) ? "number" : "", text: value === null ? "" : etq.short(etq.printable(String(value)), name === "first_bad" ? 12 : 24) });
  };
  const body = etq.element("tbody");
  const more = etq.element("button", { text: "", hidden: true, onclick: () => add(rows.length) });
  let shown = 0;
  const add = (count) => {
    for (const row of rows.slice(shown, count)) {
      const picture = etq.spark(series, table.get(row, "capture") ?? "", 120, 60);
      body.append(etq.element("tr", {}, ...COLUMNS.flatMap((name) => (name === "change_percent" ? [etq.element("td", {}, picture), cell(row, name)] : [cell(row, name)]))));
    }
    shown = Math.max(shown, Math.min(count, rows.length));
    more.hidden = shown >= rows.length;
    more.textContent = `Show all ${rows.length} series`;
  };
  const titles = COLUMNS.flatMap((name) => [...(name === "change_percent" ? [["captures in order", false]] : []), [head[name], numeric.has(name)]]);
  add(30);
  parent.append(etq.element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Series" },
    etq.element("table", {}, etq.element("thead", {}, etq.element("tr", {}, ...titles.map(([text, isNumeric]) => etq.element("th", { scope: "col", class: isNumeric ? "number" : "", text })))), body)), more);
}

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
    draw();
  };
  function draw() {
    const kind = etq.parameters().kind ?? "";
    const { causes } = page;
    if (causes) {
      const open = causes.filter((cause) => !cause.is_accepted);
      title.textContent = open.length === 1 ? "1 finding" : `${open.length || "No"} findings`;
      const titles = { "": "all", change: "since a build", device: "device", rank: "rank", link: "link", clock: "clock", accepted: "accepted" };
      const of = (name) => (name === "accepted" ? causes.filter((each) => each.is_accepted) : open.filter((each) => name === "" || each.kind === name));
      const kinds = Object.fromEntries(Object.keys(titles).map((name) => [name, of(name)]));
      chips.replaceChildren(...Object.entries(kinds).map(([name, of]) => etq.element("button", { type: "button", "aria-pressed": String(name === kind), onclick: () => choose(name) }, `${titles[name]} `, etq.element("b", { text: of.length }))));
      const list = etq.element("ul", { class: "found" }, ...(kinds[kind] ?? open).map((cause) => item(cause, page.series, page.table)));
      const none = kind === "" ? "Nothing is found to be slower." : "None of this kind.";
      found.replaceChildren(list.children.length ? list : etq.element("p", { text: `${none} ${page.text ? `${page.text}.` : ""}` }));
    }
    if (page.table) {
      listed.replaceChildren(etq.element("h2", {}, "Series"), etq.element("p", { class: "sub muted", text: page.text }));
      seriesTable(listed, page.table, page.series);
    }
  }

  async function load() {
    const { selector } = etq.parameters();
    input.value = selector ?? "";
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
        const of = [answer.models ? ` of ${number(answer.models, "model")}` : "", answer.devices ? ` on ${number(answer.devices, "device")}` : ""];
        sub.textContent = `${number(answer.captures, "capture")}${of.join("")}${answer.newest ? `; newest ${answer.newest.slice(0, 16)} UTC` : ""}`;
      }, found);
      if (overview && !overview.captures) {
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
        etq.series(signal).then((series) => { page.series = series; }, () => null),
      ]);
      draw();
    });
  }

  etq.reload = load;
  etq.onStep(load);
  await load();
  etq.captures().then((all) => document.body.append(etq.suggestions(all)), () => null); // only suggestions
};
