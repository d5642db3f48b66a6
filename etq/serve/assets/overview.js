// The page of overviews: all of them, or what one watches, with the last values and what changed in a period.

const PERIODS = { week: "this week", "1d": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days" };
const LENGTHS = { h: 3.6e6, d: 8.64e7, w: 6.048e8 };
const USUAL = "7d";

// A time, one so long ago, or the beginning of this week, in UTC, in milliseconds since 1970; null for other texts.
function momentOf(text) {
  if (text === "week") return weekOf(Date.now());
  const found = /^(\d{1,6})([hdw])$/.exec(text);
  if (found) return Date.now() - found[1] * LENGTHS[found[2]];
  const moment = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(/T[\d:.]+$/.test(text) ? `${text}Z` : text) : NaN;
  return Number.isNaN(moment) ? null : moment;
}

// The Monday of the week of a time.
function weekOf(moment) {
  const day = new Date(moment);
  day.setUTCHours(0, 0, 0, 0);
  return day.setUTCDate(day.getUTCDate() - ((day.getUTCDay() + 6) % 7));
}

// When the first capture with a label, or of a commit that begins so, was recorded; NaN without one.
function momentOfLabel(text, answers) {
  const moments = answers.flatMap(({ over, values }) => {
    const table = new etq.Table(values);
    return table.rows().filter((row) => table.get(row, "label") === text || (over === "commit" && text.length > 3 && String(table.get(row, "label")).startsWith(text))).map((row) => table.get(row, "recorded"));
  });
  return moments.length ? Math.min(...moments) : NaN;
}

// How changes are put together: the title of a change's group.
const GROUPS = {
  week: (change) => `Week of ${new Date(weekOf(change.recorded)).toISOString().slice(0, 10)}`,
  commit: (change) => `${change.over} ${etq.shortHash(etq.short(change.first_bad, 60))}`,
};

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

function drawChanges(parent, rows, group, isComplete, after) {
  if (!rows.length) {
    if (isComplete) parent.append(etq.element("p", { class: "missing", text: "No lasting change in this period; a longer one may have some. A change is found once enough captures have followed it." }));
    return;
  }
  if (!GROUPS[group]) {
    changesTable(parent, rows, "changes", after);
    return;
  }
  const groups = new Map();
  for (const row of rows) groups.set(GROUPS[group](row), [...(groups.get(GROUPS[group](row)) ?? []), row]);
  [...groups].forEach(([title, some], at) => {
    parent.append(etq.element("h3", { text: etq.printable(title) }));
    changesTable(parent, some, `changes-${at + 1}`, after);
  });
}

function changesTable(parent, rows, name, after) {
  const table = tableOf(["recorded", "op", "what", "module_path", "instruction_id", "verdict", "change_percent", "series", "last_good", "first_bad", "base", "new", "comment"], rows);
  etq.table(parent, table, [
    { name: "recorded", title: "when, UTC", as: dayOf },
    { name: "op", title: "what", as: (op, row) => (rows[row].what === "total" ? `total of ${op ?? "all"}` : op) },
    { name: "module_path", title: "module" },
    { name: "instruction_id", title: "instruction", numeric: true },
    { name: "verdict", as: etq.verdict },
    { name: "change_percent", title: "change", numeric: true, as: etq.change },
    { name: "series" },
    { name: "last_good", title: "last good", as: etq.labelOf },
    { name: "first_bad", title: "first bad", as: etq.labelOf },
    { name: "what", title: "before and after", always: true, as: (_, row) => etq.compared(table, row) },
    { name: "comment", title: "said", always: etq.edits, as: (_, row) => etq.commentCell(rows[row], { selector: rows[row].selector, over: rows[row].over, by: rows[row].by, after }) },
  ], { name });
}

// Comparisons that the overview has, each with what was decided.
function drawComparisons(parent, comparisons, lines, remove) {
  parent.append(etq.element("ul", { class: "comparisons" }, ...comparisons.map((each) => {
    const link = `/compare?${new URLSearchParams(Object.entries({ base: each.base, new: each.new, phase: each.phase, min_effect: each.min_effect, allow_mismatch: each.allow_mismatch ? "1" : null }).filter(([, value]) => value !== null))}`;
    const { line, verdict, error } = lines.get(each.comparison_index) ?? {};
    return etq.element("li", { "data-number": each.comparison_index },
      etq.element("a", { href: link, text: `${etq.short(each.base, 80)} → ${etq.short(each.new, 80)}` }), ": ",
      error ? etq.element("span", { class: "missing", text: etq.printable(error) }) : etq.element("span", { class: verdict ? `verdict ${etq.verdictClass(verdict)}` : "", text: etq.sentence(etq.printable(line ?? "…")) }),
      etq.edits ? etq.element("button", { type: "button", class: "quiet", "aria-label": `Remove the comparison ${each.comparison_index}`, text: "Remove", onclick: () => remove({ remove_comparison: String(each.comparison_index) }) }) : "");
  })));
}

// A form that adds a comparison.
function comparisonForm(parent, send) {
  const side = (name, text) => etq.element("input", { type: "search", name, required: true, autocomplete: "off", placeholder: text });
  const [base, newer] = [side("base", "branch=main"), side("new", "branch=next")];
  parent.append(etq.element("form", { class: "bar", onsubmit: (event) => {
    event.preventDefault();
    send({ base: base.value.trim(), new: newer.value.trim() });
  } }, etq.field("compare", base), etq.field("with", newer), etq.element("button", { type: "submit", text: "Add comparison" })));
}

// Comments of the warehouse, the latest first.
function drawComments(parent, table, remove) {
  etq.table(parent, table, [
    { name: "written_at", title: "when, UTC" },
    { name: "verdict" },
    { name: "what", as: (what, row) => (what === "all" ? "all" : [what, table.get(row, "item")].filter(Boolean).join(" ")) },
    { name: "series" },
    { name: "first_bad", title: "first bad", as: (label, row) => `${table.get(row, "over")} ${etq.shortHash(label)}` },
    { name: "text" },
    { name: "author" },
    ...(etq.edits ? [{ name: "number", title: "comment", always: true, as: (number) => etq.element("button", { type: "button", class: "quiet", "aria-label": `Remove comment ${number}`, text: `Remove ${number}`, onclick: () => remove({ remove_comment: String(number) }) }) }] : []),
  ], { name: "comments", first: 20 });
}

// All overviews, as links.
function drawAll(found) {
  const head = document.getElementById("head");
  head.append(etq.element("h1", { text: "Overviews" }), etq.themeButton());
  const names = new Map();
  for (const each of found) names.set(each.overview, (names.get(each.overview) ?? 0) + 1);
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
  let comparisons = [];
  let comments = null;
  let lines = new Map(); // what was decided about comparisons, by their number
  let links = null; // addresses of the badge and the feed

  async function load() {
    const { name } = etq.parameters();
    await etq.work("Reading overviews…", async (signal) => {
      const found = await etq.ask("overviews", {}, signal);
      comments = new etq.Table(found.comments);
      const compared = new etq.Table(found.comparisons);
      comparisons = compared.rows().map((row) => Object.fromEntries([...compared.columns.keys()].map((column) => [column, compared.get(row, column)])));
      const table = new etq.Table(found.items);
      items = table.rows().map((row) => Object.fromEntries(["overview", "item_index", "what", "item", "selector", "ordered_by", "separated_by"].map((column) => [column, table.get(row, column)])))
        .map(({ item_index, ordered_by, separated_by, ...item }) => ({ ...item, number: item_index, over: ordered_by, by: separated_by }));
      if (name === undefined) {
        etq.clear();
        drawAll([...items, ...comparisons]);
        return;
      }
      items = items.filter((item) => item.overview === name);
      comparisons = comparisons.filter((each) => each.overview === name);
      answers = new Map();
      lines = new Map();
      links = await etq.ask("links", { overview: name }, signal).catch(() => null);
      draw();
      // One after the other: others use the server, too.
      for (const { number, what, item, selector, over, by } of items) {
        answers.set(number, await etq.ask("watched", { what, item, selector, over, by }, signal).catch((error) => {
          if (error.name === "AbortError") throw error;
          return { error: error.message };
        }));
        draw();
      }
      for (const { comparison_index: number } of comparisons) {
        lines.set(number, await etq.ask("compared", { overview: name, number: String(number) }, signal).catch((error) => {
          if (error.name === "AbortError") throw error;
          return { error: error.message };
        }));
        draw();
      }
    });
  }

  const remove = (number) => edit({ remove: String(number) });
  async function edit(change) {
    try {
      await etq.edit({ overview: etq.parameters().name, ...change });
      await load();
    } catch (error) {
      etq.state(error.message, true);
    }
  }

  function draw() {
    const { name, since: text = USUAL, group = "" } = etq.parameters();
    etq.clear();
    document.title = `${etq.printable(name)} · Overviews · ${document.title.split(" · ").at(-1)}`;
    document.getElementById("head").append(etq.element("div", {}, etq.element("a", { class: "muted", href: "/overview", text: "Overviews" }), etq.element("h1", { text: name })), etq.themeButton());
    if (!items.length && !comparisons.length) {
      document.getElementById("sections").append(etq.element("p", { class: "missing", text: "No overview has this name: on the page of trends, Watch adds a series to it." }));
      return;
    }
    const found = items.filter(({ number }) => answers.has(number)).map((item) => [item, answers.get(item.number)]);
    const since = momentOf(text) ?? momentOfLabel(text, found.filter(([, answer]) => !answer.error).map(([, answer]) => answer));
    const choice = etq.choice("since", [...new Set([...Object.keys(PERIODS), text])], text, (value) => {
      etq.setParameters({ since: value === USUAL ? "" : value });
      draw();
    }, PERIODS);
    const watched = section("watched", "Watched");
    const other = etq.element("input", { type: "search", name: "other", placeholder: "2026-11-15 or a build", autocomplete: "off", value: PERIODS[text] ? null : text });
    const grouped = etq.choice("group", ["", "week", "commit"], group, (value) => {
      etq.setParameters({ group: value });
      draw();
    }, { "": "one list", week: "weeks", commit: "commits or builds" });
    watched.append(etq.element("form", { class: "bar", onsubmit: (event) => {
      event.preventDefault();
      etq.setParameters({ since: other.value.trim() });
      draw();
    } }, etq.field("period", choice), etq.field("or since", other), etq.field("changes by", grouped),
    ...(links ? [etq.element("a", { class: "button", href: links.feed, text: "Feed" }), etq.element("a", { class: "button", href: links.badge, text: "Badge" })] : [])));
    const rows = found.filter(([, answer]) => !answer.error).flatMap(([item, answer]) => seriesOf(item, answer, since));
    if (rows.length) drawSeries(watched, rows, remove);
    for (const [item, answer] of found) {
      const count = answer.error ? 0 : new etq.Table(answer.values).get(0, "series_count") ?? 0;
      const what = answer.error ?? (count > answer.most_series ? `the first ${answer.most_series} of ${etq.number(count)} series; choose fewer by labels` : null);
      if (what) watched.append(etq.element("p", { class: "missing" }, `Number ${item.number}, ${etq.printable(etq.short(ofItem(item)))}: ${etq.printable(what)} `, etq.edits && answer.error ? removal(item.number, ofItem(item), remove) : ""));
    }
    const changes = new Map();
    for (const [item, answer] of found) {
      if (answer.error) continue;
      const table = new etq.Table(answer.changes);
      for (const row of table.rows()) {
        const change = Object.fromEntries([...table.columns.keys()].map((column) => [column, table.get(row, column)]));
        const { series, what, op, instruction_id, first_bad, recorded } = change;
        // An op may be watched itself, and with its total.
        if (recorded >= since) changes.set(JSON.stringify([series, what, op, instruction_id, first_bad, answer.over]), { ...change, over: answer.over, selector: item.selector, by: item.by });
      }
    }
    const title = PERIODS[text] ? `What changed ${text === "week" ? "" : "in the last "}${PERIODS[text]}` : `What changed since ${etq.short(text, 40)}`;
    const shown = [...changes.values()].sort((one, other) => other.recorded - one.recorded);
    const changed = section("changes", title);
    const isComplete = found.length === items.length;
    if (Number.isNaN(since)) {
      if (isComplete) changed.append(etq.element("p", { class: "missing", text: "Neither a time nor a label of these captures; write week, 7d, 12h, 2w, 2026-11-15, a build or a commit." }));
    } else {
      drawChanges(changed, shown.filter((each) => !each.is_accepted), group, isComplete, load);
      const accepted = shown.filter((each) => each.is_accepted);
      if (accepted.length) changesTable(section("accepted", "Accepted"), accepted, "accepted", null);
    }
    if (comparisons.length || etq.edits) {
      const compared = section("comparisons", "Comparisons");
      drawComparisons(compared, comparisons, lines, edit);
      if (etq.edits) comparisonForm(compared, edit);
    }
    if (comments.length) drawComments(section("comments", "Comments"), comments, edit);
  }

  etq.onStep(load);
  await load();
};
