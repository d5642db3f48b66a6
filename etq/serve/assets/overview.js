// The page of overviews: all of them, or what one watches, with the last values and what changed in a period.

const PERIODS = { "1d": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days" };
const LENGTHS = { h: 3.6e6, d: 8.64e7, w: 6.048e8 };
const USUAL = "7d";

// A time, or one so long ago, in milliseconds since 1970; NaN for other texts.
function momentOf(text) {
  const found = /^(\d{1,6})([hdw])$/.exec(text);
  if (found) return Date.now() - found[1] * LENGTHS[found[2]];
  return Date.parse(/T[\d:.]+$/.test(text) ? `${text}Z` : text);
}

const dayOf = (recorded) => (recorded === null ? "" : new Date(recorded).toISOString().slice(0, 16).replace("T", " "));

// A table of rows that are objects.
function tableOf(names, rows) {
  return new etq.Table({ names, columns: names.map((name) => rows.map((row) => row[name] ?? null)), length: rows.length });
}

function section(id, title) {
  const made = etq.element("section", { id, "aria-labelledby": `${id}-title` }, etq.element("h2", { id: `${id}-title`, text: title }));
  document.getElementById("sections").append(made);
  return made;
}

const ofItem = (item) => (item.what === "total" ? item.item ?? "total" : item.what === "op" ? item.item : `${item.what} ${item.item}`);

// The series of an item with its last values: `since` is when the period begins.
function seriesOf(item, { over, values }, since) {
  const series = new etq.Series({ over, rows: values });
  return [...series.all].map(([name, points]) => {
    const last = points.at(-1);
    const before = points.findLast((point) => point.recorded < since && point.value !== null) ?? null;
    return { item, series: name, spark: series, last, before, over, value: last.value, change: before && last.recorded >= since ? 100 * (last.value / before.value - 1) : null };
  });
}

function drawSeries(parent, rows, act) {
  const found = rows.map(({ item, ...row }) => ({ ...row, of: ofItem(item), label: row.last.label, number: item.number }));
  const table = tableOf(["series", "of", "value", "change", "label", "number"], found);
  const trendOf = ({ item, series }) => `/trends?${new URLSearchParams(Object.entries({ selector: item.selector, over: item.over, by: item.by, series }).filter(([, value]) => value))}`;
  etq.table(parent, table, [
    { name: "series", always: true, as: (name, row) => (["total", "op"].includes(rows[row].item.what) ? etq.element("a", { href: trendOf(rows[row]), text: name || "(all captures)" }) : name) },
    { name: "of" },
    { name: "value", title: "last", numeric: true, as: (value, row) => etq.quantity(value, rows[row].last.unit) },
    { name: "change", title: "in the period", numeric: true, as: etq.change, meaning: "from the last capture before the period to the last one; whether it is more than noise, a comparison says" },
    { name: "number", title: "trend", always: true, as: (_, row) => etq.spark(rows[row].spark, rows[row].last.capture) },
    { name: "label", title: "at" },
    ...(etq.edits ? [{ name: "number", title: "watched", always: true, as: (number, row) => removal(number, `${ofItem(rows[row].item)}, ${rows[row].item.selector ?? "all captures"}`, act) }] : []),
  ], { name: "watched", first: 50 });
}

const removal = (number, text, act) => etq.element("button", { type: "button", class: "quiet", "data-number": number, "aria-label": `Remove number ${number}: ${etq.printable(text)}`, onclick: () => act(number), text: `Remove ${number}` });

function drawChanges(parent, rows, over, isComplete) {
  if (!rows.length) {
    if (isComplete) parent.append(etq.element("p", { class: "missing", text: "No level changed for good. A change is found once enough captures have followed it." }));
    return;
  }
  const table = tableOf(["recorded", "op", "what", "module_path", "instruction_id", "verdict", "change_percent", "series", "last_good", "first_bad"], rows);
  etq.table(parent, table, [
    { name: "recorded", title: "when, UTC", as: dayOf },
    { name: "op", title: "what", as: (op, row) => (rows[row].what === "total" ? `total of ${op ?? "all"}` : op) },
    { name: "module_path", title: "module" },
    { name: "instruction_id", title: "instruction", numeric: true },
    { name: "verdict", as: etq.verdict },
    { name: "change_percent", title: "change", numeric: true, as: etq.change },
    { name: "series" },
    { name: "last_good", title: "last good" },
    { name: "first_bad", title: "first bad" },
    { name: "what", title: "before and after", always: true, as: (_, row) => etq.compared(table, row, over(row)) },
  ], { name: "changes" });
}

// All overviews, as links.
function drawAll(items) {
  const head = document.getElementById("head");
  head.append(etq.element("h1", { text: "Overviews" }), etq.themeButton());
  const names = new Map();
  for (const item of items) names.set(item.overview, (names.get(item.overview) ?? 0) + 1);
  if (!names.size) {
    const how = etq.edits ? "On the page of trends, choose a series and press Watch." : "On the page of trends, Watch has the command that adds a series; with etq serve --edit, pages add it themselves.";
    document.getElementById("sections").append(etq.element("p", { class: "missing", text: `There is no overview yet. ${how}` }));
    return;
  }
  document.getElementById("sections").append(etq.element("ul", { id: "overviews" }, ...[...names].map(([name, count]) => etq.element("li", {},
    etq.element("a", { href: etq.overviewLink(name), text: name }), etq.element("span", { class: "muted", text: ` ${etq.number(count)} watched` })))));
}

etq.pageOfOverview = async () => {
  let answers = new Map(); // what the server answered, by the number of the item
  let items = [];

  async function load() {
    const { name } = etq.parameters();
    await etq.work("Reading overviews…", async (signal) => {
      const table = new etq.Table((await etq.ask("overviews", {}, signal)).items);
      items = table.rows().map((row) => Object.fromEntries(["overview", "item_index", "what", "item", "selector", "ordered_by", "separated_by"].map((column) => [column, table.get(row, column)])))
        .map(({ item_index, ordered_by, separated_by, ...item }) => ({ ...item, number: item_index, over: ordered_by, by: separated_by }));
      if (name === undefined) {
        etq.clear();
        drawAll(items);
        return;
      }
      items = items.filter((item) => item.overview === name);
      answers = new Map();
      draw();
      // One after the other: others use the server, too.
      for (const { number, what, item, selector, over, by } of items) {
        answers.set(number, await etq.ask("watched", { what, item, selector, over, by }, signal).catch((error) => {
          if (error.name === "AbortError") throw error;
          return { error: error.message };
        }));
        draw();
      }
    });
  }

  async function remove(number) {
    try {
      await etq.edit({ overview: etq.parameters().name, remove: String(number) });
      await load();
    } catch (error) {
      etq.state(error.message, true);
    }
  }

  function draw() {
    const { name, since: text = USUAL } = etq.parameters();
    etq.clear();
    document.title = `${etq.printable(name)} · Overviews · ${document.title.split(" · ").at(-1)}`;
    document.getElementById("head").append(etq.element("div", {}, etq.element("a", { class: "muted", href: "/overview", text: "Overviews" }), etq.element("h1", { text: name })), etq.themeButton());
    if (!items.length) {
      document.getElementById("sections").append(etq.element("p", { class: "missing", text: "No overview has this name: on the page of trends, Watch adds a series to it." }));
      return;
    }
    const since = momentOf(text);
    const found = items.filter(({ number }) => answers.has(number)).map((item) => [item, answers.get(item.number)]);
    const choice = etq.choice("since", [...new Set([...Object.keys(PERIODS), text])], text, (value) => {
      etq.setParameters({ since: value === USUAL ? "" : value });
      draw();
    }, PERIODS);
    const watched = section("watched", "Watched");
    watched.append(etq.element("div", { class: "bar" }, etq.field("period", choice)));
    const rows = found.filter(([, answer]) => !answer.error).flatMap(([item, answer]) => seriesOf(item, answer, since));
    if (rows.length) drawSeries(watched, rows, remove);
    for (const [item, answer] of found) {
      const count = answer.error ? 0 : new etq.Table(answer.values).get(0, "series_count") ?? 0;
      const what = answer.error ?? (count > answer.most_series ? `the first ${answer.most_series} of ${etq.number(count)} series; choose fewer by labels` : null);
      if (what) watched.append(etq.element("p", { class: "missing" }, `Number ${item.number}, ${etq.printable(etq.short(ofItem(item)))}: ${etq.printable(what)} `, etq.edits && answer.error ? removal(item.number, ofItem(item), remove) : ""));
    }
    const changes = new Map();
    for (const [, answer] of found) {
      if (answer.error) continue;
      const table = new etq.Table(answer.changes);
      for (const row of table.rows()) {
        const change = Object.fromEntries([...table.columns.keys()].map((column) => [column, table.get(row, column)]));
        const { series, what, op, instruction_id, first_bad, recorded } = change;
        // An op may be watched itself, and with its total.
        if (recorded >= since) changes.set(JSON.stringify([series, what, op, instruction_id, first_bad, answer.over]), { ...change, over: answer.over });
      }
    }
    const title = PERIODS[text] ? `What changed in the last ${PERIODS[text]}` : `What changed since ${etq.short(text, 40)}`;
    const shown = [...changes.values()].sort((one, other) => other.recorded - one.recorded);
    if (Number.isNaN(since)) section("changes", title).append(etq.element("p", { class: "missing", text: "Not a time; write 7d, 12h, 2w or 2026-11-15." }));
    else drawChanges(section("changes", title), shown, (row) => shown[row].over, found.length === items.length);
  }

  etq.onStep(load);
  await load();
};
