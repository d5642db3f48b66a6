// A job: its findings, and how each rank spends a step.

etq.section("job", (parent, { ranks }, facts) => {
  parent.append(etq.element("p", { class: "told", text: etq.sentence(facts.sentence) }));
  const share = (value) => (value === null ? "unknown" : etq.percent(value));
  const of = facts.world_size > facts.ranks ? ` of ${etq.number(facts.world_size)}; missing: ${facts.missing}` : "";
  parent.append(etq.cards([
    etq.card("ranks", etq.number(facts.ranks ?? 0) + of, `${etq.number(facts.steps ?? 0)} steps`, {}),
    etq.card("waits", share(facts.waited_percent), "of the steps of all ranks", {}),
    etq.card("exposed communication", share(facts.exposed_percent), "of the steps, while nothing is computed", {}),
  ]));
  const list = etq.element("ol", { class: "ranks", "aria-label": "What each rank does in a step" });
  const longest = Math.max(...ranks.list("step"));
  for (const row of ranks.rows()) {
    const get = (name) => ranks.get(row, name);
    const parts = [["computes", get("computation")], ["waits", get("waited")], ["transfers", get("transfer")]];
    const line = etq.element("span", { class: "parts", "aria-hidden": "true" });
    for (const [name, time] of parts) {
      const part = etq.element("span", { class: name });
      part.style.width = `${(100 * (time ?? 0)) / longest}%`;
      line.append(part);
    }
    const shown = [["step", get("step")], ...parts, ["waited for", get("waited_for")]]
      .map(([name, time]) => `${name} ${time === null ? "unknown" : etq.quantity(time, get("unit"))}`);
    list.append(etq.element("li", {}, etq.element("span", { text: `rank ${get("rank")}` }), line,
      etq.element("span", { class: "muted", text: shown.join(" · ") })));
  }
  parent.append(list);
});

// Waits between ranks: a row for each rank that waits, a column for each rank that is waited for.
etq.section("waits", (parent, { pairs }) => {
  if (!pairs.length) return;
  const waits = pairs.rows().map((row) => ["rank", "last_rank", "waited"].map((name) => pairs.get(row, name)));
  const ranks = [...new Set(waits.flatMap(([rank, last]) => [rank, last]))].sort((one, other) => one - other);
  const times = new Map(waits.map(([rank, last, waited]) => [`${rank} ${last}`, waited]));
  const most = waits[0][2];
  const decimals = etq.decimals(waits.map((each) => each[2]));
  const rows = ranks.map((rank) => etq.element("tr", {}, etq.element("th", { scope: "row", text: `rank ${rank}` }), ...ranks.map((last) => {
    const waited = times.get(`${rank} ${last}`);
    const cell = etq.element("td", { class: "number", text: waited === undefined ? "" : etq.fixed(waited, decimals) });
    // From a tenth of the longest wait on, the colour is pale; from half on, it is full.
    const step = [0.1, 0.25, 0.5].filter((share) => waited >= share * most).length;
    if (step) Object.assign(cell.style, { background: `var(--slower-${step + 1})`, color: `var(--slower-${step + 1}-text)` });
    return cell;
  })));
  const head = etq.element("tr", {}, etq.element("th", { scope: "col", text: "waits for" }), ...ranks.map((last) => etq.element("th", { scope: "col", class: "number", text: `rank ${last}` })));
  const left = pairs.get(0, "number") > ranks.length ? ` These ranks wait, or are waited for, longest: ${ranks.length} of ${etq.number(pairs.get(0, "number"))}.` : "";
  parent.append(
    etq.element("p", { class: "muted", text: `How long the rank in a row waits for the rank in a column, in all collectives, in ${etq.unit(pairs.get(0, "unit"))}, where it is known.${left}` }),
    etq.element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Waits by rank" }, etq.element("table", { class: "fleet matrix" }, etq.element("thead", {}, head), etq.element("tbody", {}, ...rows))));
});
