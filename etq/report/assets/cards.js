// Parts of sections besides tables: cards with key figures, facts, findings, legends.

etq.cards = (cards) => etq.element("div", { class: "cards" }, ...cards);

// One figure; `href` links to its details.
etq.card = (title, value, note, { meaning = null, name = title, href = null } = {}) => etq.element(
  "div",
  { class: "card", title: meaning, "data-number": name },
  etq.element("div", { class: "name", text: title }),
  etq.element("div", { class: "value" }, href ? etq.element("a", { href, text: value }) : etq.element("span", { text: value })),
  etq.element("div", { class: "muted", text: note }),
);

// Names with their values, without unknown values.
etq.facts = (pairs) => etq.element("dl", { class: "facts" }, ...pairs.filter(([, value]) => value !== null && value !== "").map(([name, value]) =>
  etq.element("div", {}, etq.element("dt", { text: etq.short(name) }), etq.element("dd", { text: etq.short(value) }))));

// Rows of rule and detail.
etq.findings = (rows) => etq.element("ul", { class: "findings" }, ...rows.rows().map((row) => etq.element(
  "li",
  { "data-rule": rows.get(row, "rule") },
  etq.element("strong", { text: rows.get(row, "rule") }),
  etq.element("span", { text: `: ${rows.get(row, "detail")}` }),
)));

etq.legend = (parent, entries) => parent.append(etq.element("p", { class: "legend" }, ...entries.map(([colour, text]) => {
  const swatch = etq.element("i");
  swatch.style.background = `var(--${colour})`;
  return etq.element("span", {}, swatch, etq.printable(text));
})));
