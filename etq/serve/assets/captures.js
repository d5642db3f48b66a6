// The page of all captures: facets, a selector, and a table.

const FIXED = {
  execute: { title: "execute", numeric: true, width: 110, meaning: "25th percentile of the runs' execute time" },
  trend: { title: "in its series", width: 136, sorts: false },
  change: { title: "change", numeric: true, width: 90, meaning: "change of the series' level at this capture that is kept" },
  captured_at: { title: "measured", width: 150 },
  ingested: { title: "ingested", width: 150 },
  runs: { title: "runs", numeric: true, width: 64 },
  findings: { title: "findings", numeric: true, width: 84, meaning: "findings about the file" },
  format: { title: "format", width: 100 },
  profiling_level: { title: "profiling level", width: 120 },
  size_bytes: { title: "file size", numeric: true, width: 100 },
  sha256: { title: "hash", width: 120, class: "code" },
  uri: { title: "file", width: 260 },
};
// Data that take longer; they are shown after the list.
const COUNTED = ["runs", "findings"];
const LATE = ["execute", "trend", "change", ...COUNTED];
const SHOWN = ["execute", "trend", "change", "captured_at", "runs"];
// Labels that divide captures into groups, the most common labels first. By default, no column has the time of a
// commit.
const USUAL = ["model", "device", "backend", "commit", "branch"];
const LABELS_SHOWN = 5;
// A label with a different value for each capture only names them, like the first column.
const MOST_NAMES = 8;
const POLL = 5000;
// The number of letters of a capture's name that are shown, and the number for a column on a phone.
const LONGEST_NAME = 44;
const NARROW_NAME = 13;

const time = (text) => (text === null ? "" : text.slice(0, 16));
const momentOf = (micros) => (micros === null ? "" : new Date(micros / 1000).toISOString().slice(0, 16).replace("T", " "));

// The time of this browser's previous visit, in microseconds since 1970; null at the first visit. A visit lasts as long
// as its tab.
function lastVisit(latest) {
  const key = `etq seen ${etq.source}`;
  try {
    if (sessionStorage.getItem(key) === null) sessionStorage.setItem(key, localStorage.getItem(key) ?? "");
    localStorage.setItem(key, String(latest));
    return sessionStorage.getItem(key) === "" ? null : Number(sessionStorage.getItem(key));
  } catch {
    return null; // the browser keeps nothing
  }
}

etq.pageOfCaptures = async () => {
  const parts = Object.fromEntries(["selector", "facets", "rows", "picked", "count"].map((name) => [name, etq.element("div", { class: name })]));
  const input = etq.element("input", { type: "search", id: "selector", list: "selectors", placeholder: "Selector: model=mlp,device=pixel8, a name, a hash, @latest", autocomplete: "off", spellcheck: "false", "aria-label": "Selector of captures" });
  const wrong = etq.element("p", { class: "missing", role: "alert", hidden: true });
  const waits = etq.element("span", { class: "waiting muted", role: "status", hidden: true });
  const picked = [];
  // Series and counts are undefined until they are known, and null after an error.
  const page = { captures: null, series: undefined, counts: undefined, kept: null, since: null };
  const isKnown = (name) => (COUNTED.includes(name) ? page.counts : LATE.includes(name) ? page.series : page.captures) !== undefined;
  // Whether a column has no value in any listed row. The column of changes only appears if it has a value, because few
  // captures have one.
  function isEmpty(name) {
    if (!isKnown(name)) return name === "change";
    const isNone = !page.kept.includes(1);
    return !page.captures.names.some((_, place) => (isNone || page.kept[place]) && (name === "trend" ? point(place) : keyOf(name)(place)) !== null);
  }

  const choose = (text) => {
    etq.setParameters({ where: text });
    filter();
  };
  input.addEventListener("change", () => choose(input.value.trim()));
  const draw = etq.facets(parts.facets, choose);
  const name = (place) => page.captures.names[place];
  const hash = (place) => page.captures.table.get(place, "sha256");
  const link = (place) => etq.captureLink(name(place), hash(place));
  const grid = etq.rows(parts.rows, {
    label: "Captures",
    open: (place) => location.assign(link(place)),
    isPicked: (place) => picked.includes(place),
    pick,
    sort: (column) => {
      const [sorted, down] = sorting();
      etq.setParameters({ sort: `${column}${sorted === column && !down ? ":down" : ""}` }, { replace: true });
      show();
    },
  });

  function pick(place) {
    const at = picked.indexOf(place);
    if (at >= 0) picked.splice(at, 1);
    else picked.push(place);
    if (picked.length > 2) picked.shift();
    drawPicked();
    grid.draw();
  }

  function sorting() {
    const given = etq.parameters().sort;
    const saved = viewed()?.sort_by;
    if (given === undefined && saved) return columnOf(saved) === null ? [null, false] : [columnOf(saved), !isText(columnOf(saved))];
    const [column, down] = (given ?? "").split(":");
    return [column || null, down === "down"];
  }

  // The named view with which the selector begins; and the column of this page for a name in that view, null if there
  // is none.
  const viewed = () => page.captures?.views.get((etq.parameters().where ?? "").split(",")[0]);
  const columnOf = (name) => (name in FIXED || name === "name" ? name : page.captures.labels.has(name) ? `label ${name}` : null);
  // As on the command line, numbers are sorted from the largest, texts from A to Z. Labels that are numbers are numbers.
  function isText(column) {
    if (column.startsWith("label ")) return page.captures.labels.get(column.slice(6)).texts.some((text) => text === "" || Number.isNaN(Number(text)));
    return !FIXED[column]?.numeric;
  }

  const labelColumns = () => [...page.captures.labels.keys()];
  function chosenColumns() {
    const given = etq.parameters().columns;
    if (given !== undefined) return given.split(",").map(etq.decoded);
    const saved = (viewed()?.shown ?? []).flatMap((name) => (name === "labels" ? labelColumns() : [name])).map(columnOf).filter((name) => name !== null && name !== "name");
    if (saved.length) return saved;
    const place = (key) => (USUAL.includes(key) ? USUAL.indexOf(key) : USUAL.length);
    const labels = labelColumns().filter(divides).sort((one, other) => place(one) - place(other) || one.localeCompare(other)).slice(0, LABELS_SHOWN).map((key) => `label ${key}`);
    const shown = SHOWN.filter((name) => !isEmpty(name));
    return isNarrow() ? [...shown, ...labels] : [...labels, ...shown];
  }
  const narrow = matchMedia("(max-width: 50rem)");
  const isNarrow = () => narrow.matches;

  // Whether a label gets a column: most captures have it, and it divides them into groups.
  function divides(key) {
    const { texts, at } = page.captures.labels.get(key);
    const labelled = at.filter((number) => number >= 0).length;
    return texts.length > 1 && labelled * 2 >= at.length && !(texts.length === labelled && labelled > MOST_NAMES) && !/_time$|^dirty$/.test(key);
  }

  function counted(name) {
    return (place) => page.counts?.get(place, name) ?? null;
  }
  const execute = (place) => page.series?.executes.get(name(place)) ?? null;
  const point = (place) => page.series?.point(name(place)) ?? null;
  const cells = {
    execute: (place) => { const found = execute(place); return found ? etq.quantity(found.value, found.unit) : ""; },
    trend: (place) => etq.spark(page.series, name(place)),
    change: (place) => { const found = point(place); return found?.change ? etq.element("span", { class: found.change > 0 ? "worse" : "better", text: etq.change(found.change) }) : ""; },
    captured_at: (place) => time(page.captures.table.get(place, "captured_at")),
    ingested: (place) => momentOf(page.captures.table.get(place, "ingested")),
    size_bytes: (place) => etq.bytes(page.captures.table.get(place, "size_bytes")),
    runs: (place) => etq.number(counted("runs")(place)),
    findings: (place) => etq.number(counted("findings")(place) || null),
  };
  const keys = { runs: counted("runs"), findings: counted("findings"), execute: (place) => execute(place)?.value ?? null, change: (place) => point(place)?.change ?? null };

  function columns() {
    const found = [
      { name: "pick", title: "pick", width: 34, sorts: false, hidesTitle: true, cell: (place) => {
        const box = etq.element("input", { type: "checkbox", tabindex: -1, "aria-label": `Pick ${etq.printable(name(place))}`, onchange: () => pick(place) });
        box.checked = picked.includes(place);
        return box;
      } },
      { name: "name", title: "capture", width: isNarrow() ? 150 : Math.min(340, Math.max(150, 40 + 7.5 * longest())), cell: (place) => etq.element("span", {},
        page.since !== null && page.captures.table.get(place, "ingested") > page.since ? etq.element("span", { class: "fresh", title: "new since your last visit", text: "new" }) : null,
        etq.element("a", { href: link(place), tabindex: -1, text: etq.middle(name(place), isNarrow() ? NARROW_NAME : LONGEST_NAME), title: etq.printable(name(place)) })) },
    ];
    for (const each of chosenColumns()) {
      if (each.startsWith("label ")) {
        const key = each.slice(6);
        if (page.captures.labels.has(key)) found.push({ name: each, title: key, width: Math.max(90, Math.min(170, 40 + 8 * Math.max(key.length, ...page.captures.labels.get(key).texts.slice(0, 20).map((text) => etq.shortHash(text).length)))), cell: (place) => etq.labelOf(page.captures.label(key, place)) });
      } else if (FIXED[each]) found.push({ name: each, ...FIXED[each], cell: cellOf(each) });
    }
    return found;
  }

  const cellOf = (column) => (isKnown(column) ? (cells[column] ?? ((place) => page.captures.table.get(place, column))) : () => etq.element("span", { class: "muted", text: "…" }));
  const longest = () => page.captures.names.reduce((most, text) => Math.max(most, text.length), 0);

  // The sort key of a column: labels are in the order of values that the server sends.
  function keyOf(column) {
    if (column.startsWith("label ")) {
      const found = page.captures.labels.get(column.slice(6));
      return (place) => (found && found.at[place] >= 0 ? found.at[place] : null);
    }
    return keys[column] ?? ((place) => page.captures.table.get(place, column));
  }

  function ordered() {
    const found = [];
    const isNew = etq.parameters().fresh === "1" && page.since !== null;
    for (let place = 0; place < page.kept.length; place += 1) {
      if (page.kept[place] && (!isNew || page.captures.table.get(place, "ingested") > page.since)) found.push(place);
    }
    const [column, down] = sorting();
    if (column === null) return found.reverse(); // the last ingested first
    const key = keyOf(column);
    const values = new Map(found.map((place) => [place, key(place)]));
    const sign = down ? -1 : 1;
    return found.sort((one, other) => {
      const [a, b] = [values.get(one), values.get(other)];
      if (a === null || b === null) return (a === null) - (b === null) || one - other;
      return sign * (typeof a === "number" ? a - b : String(a).localeCompare(String(b))) || one - other;
    });
  }

  function show(options) {
    const places = ordered();
    grid.show(columns(), places, sorting(), options);
    const all = page.captures.length;
    // If there are no captures, the page says what to do first.
    for (const part of [facets, parts.selector, parts.picked, parts.rows]) part.hidden = all === 0;
    if (all && !page.captures.labels.size) parts.facets.replaceChildren(etq.element("p", { class: "muted", text: `No capture has labels to tell captures apart by: etq label CAPTURE device=pixel8 --db ${etq.source}` }));
    const fresh = page.since === null ? 0 : page.captures.table.list("ingested").filter((each) => each > page.since).length;
    parts.count.replaceChildren(
      etq.element("span", { id: "shown", text: `${places.length === all ? "" : `${etq.number(places.length)} of `}${etq.number(all)} ${all === 1 ? "capture" : "captures"}` }),
      ...(fresh ? [etq.element("button", {
        type: "button", id: "fresh", "aria-pressed": etq.parameters().fresh === "1" ? "true" : "false", text: `${etq.number(fresh)} new since your last visit`,
        onclick: () => {
          etq.setParameters({ fresh: etq.parameters().fresh === "1" ? "" : "1" });
          show();
        },
      })] : []),
    );
  }

  function drawPicked() {
    const text = etq.parameters().where ?? "";
    const own = picked.map((place) => (/^[\w][\w.-]*$/.test(name(place)) ? name(place) : hash(place)));
    const actions = [];
    const side = (which, value) => {
      try {
        sessionStorage.setItem(`etq ${which}`, value);
      } catch { /* the browser stores nothing: the link has it */ }
      const other = which === "base" ? "new" : "base";
      location.assign(`/compare?${new URLSearchParams({ [which]: value, ...(sessionStorage.getItem(`etq ${other}`) ? { [other]: sessionStorage.getItem(`etq ${other}`) } : {}) })}`);
    };
    const button = (label, act, id) => etq.element("button", { type: "button", id, text: label, onclick: act });
    if (picked.length === 2) {
      const [base, newer] = [...own.keys()].sort((one, other) => picked[one] - picked[other]).map((at) => own[at]);
      actions.push(button("Compare the two", () => location.assign(etq.compareLink(base, newer)), "compare-two"));
    } else if (picked.length === 1) {
      actions.push(button("Base of a comparison", () => side("base", own[0]), "pick-base"), button("New side", () => side("new", own[0]), "pick-new"));
    } else if (text && wrong.hidden) {
      actions.push(button("These are the base", () => side("base", text), "set-base"), button("These are the new side", () => side("new", text), "set-new"));
      actions.push(etq.element("a", { class: "button", href: `/trends?${new URLSearchParams({ selector: text })}`, text: "Trends of these" }));
    } else actions.push(etq.element("span", { class: "muted hint", text: "Tick two captures to compare them, or choose labels for the sides of a comparison." }));
    if (picked.length) actions.push(button("Clear", () => { picked.length = 0; drawPicked(); grid.draw(); }, "clear-picked"));
    parts.picked.replaceChildren(...(picked.length ? [etq.element("span", { class: "muted", text: picked.map((place) => etq.short(name(place), 40)).join(", ") })] : []), ...actions);
  }

  let filtering = null;
  async function filter(options) {
    filtering?.abort();
    const mine = new AbortController();
    filtering = mine;
    const text = etq.parameters().where ?? "";
    input.value = text;
    wrong.hidden = true;
    parts.facets.setAttribute("aria-busy", "true");
    let pairs = null;
    try {
      const chosen = await etq.chosenBy(page.captures, text, mine.signal);
      if (filtering !== mine) return;
      page.kept = chosen.kept;
      pairs = chosen.pairs;
    } catch (error) {
      if (error.name === "AbortError") return;
      page.kept = new Uint8Array(page.captures.length);
      wrong.textContent = etq.printable(error.message);
      wrong.hidden = false;
    }
    // If no capture matches, facets show the labels of all captures, so that another choice is possible.
    if (wrong.hidden) draw(page.captures, pairs, page.kept);
    else draw(page.captures, null, new Uint8Array(page.captures.length).fill(1));
    show(options);
    drawPicked();
    parts.facets.setAttribute("aria-busy", "false");
  }

  function columnChoice() {
    const list = etq.element("div", { class: "choices" });
    const box = etq.element("details", { class: "columns" }, etq.element("summary", { text: "Columns" }), list);
    box.addEventListener("toggle", () => {
      const chosen = chosenColumns();
      list.replaceChildren(...[...labelColumns().map((key) => [`label ${key}`, key]), ...Object.entries(FIXED).map(([key, { title }]) => [key, title])].map(([key, title]) => {
        const tick = etq.element("input", { type: "checkbox", value: key });
        tick.checked = chosen.includes(key);
        tick.addEventListener("change", () => {
          const now = chosenColumns();
          const next = tick.checked ? [...now, key] : now.filter((each) => each !== key);
          etq.setParameters({ columns: next.map(encodeURIComponent).join(",") || "none" }, { replace: true });
          show({ keeps: true });
        });
        return etq.element("label", {}, tick, etq.element("span", { text: ` ${etq.short(title, 40)}` }));
      }));
    });
    return box;
  }

  async function load(signal) {
    page.captures = await etq.captures(signal);
    const ingested = page.captures.table.list("ingested");
    page.since = lastVisit(ingested.reduce((most, each) => Math.max(most, each), 0));
    document.getElementById("selectors")?.remove();
    document.body.append(etq.suggestions(page.captures));
  }

  function wait(text) {
    waits.textContent = text;
    waits.hidden = text === "";
  }

  async function loadSeries() {
    etq.state(page.captures.length ? "" : etq.emptyText());
    if (page.captures.length && page.series === undefined) wait("Reading times…");
    // A failed request leaves its column empty; the page of trends reports why.
    page.series = await etq.series().catch(() => null);
    if (page.captures.length) show({ keeps: true });
    if (page.captures.length && page.counts === undefined) wait("Counting runs…");
    const counts = await etq.ask("counts").catch(() => null);
    page.counts = counts && counts.rows.length === page.captures.length ? new etq.Table(counts.rows) : null;
    wait("");
    document.documentElement.dataset.series = "yes";
    if (page.captures.length) show({ keeps: true });
  }

  const facets = etq.element("details", { class: "side", open: !isNarrow() }, etq.element("summary", { text: "Labels" }), parts.facets);
  const main = document.getElementById("sections");
  main.classList.add("captures");
  document.getElementById("head").append(etq.element("h1", { text: "Captures" }), etq.themeButton());
  parts.selector.append(input, columnChoice());
  main.append(facets, etq.element("div", { class: "listed" }, parts.selector, wrong, etq.element("div", { class: "bar" }, parts.count, waits, parts.picked), parts.rows));

  // The table's keys work even if it doesn't have the focus.
  addEventListener("keydown", (event) => {
    if (document.activeElement === document.body && !event.ctrlKey) grid.press(event);
  });
  narrow.addEventListener("change", () => {
    facets.open = !isNarrow();
    if (page.kept) show({ keeps: true });
  });
  etq.onStep(() => filter());
  await etq.work("Reading captures…", async (signal) => {
    await load(signal);
    await filter();
  });
  if (page.captures) await loadSeries();
  // Captures that other processes add appear by themselves.
  let seen = await etq.ask("state").catch(() => null);
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const now = await etq.ask("state");
      if (now.state === seen?.state && page.captures) return;
      etq.forgetCaptures();
      await load();
      seen = now;
      picked.length = 0;
      await filter({ keeps: true });
      await loadSeries();
    } catch (error) {
      etq.state(error.message, true);
      seen = null;
    }
  }, POLL);
};
