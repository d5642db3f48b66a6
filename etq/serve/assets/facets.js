// Facets: the values of each label, with the number of captures that each would select. Choosing a value writes a
// selector.

const AT_FIRST = 8;
const AT_MOST = 300;

// draw(captures, pairs, kept) draws again; `pairs` are the chosen labels, null if the selector has more than labels.
// choose(text) is called with the selector that a click produces.
etq.facets = (parent, choose) => {
  const open = new Set();
  const searched = new Map();
  let last = null;

  // For each facet, the captures that the choices in the other facets leave. Its own choice doesn't narrow a facet.
  function base(captures, pairs, key, kept) {
    if (!pairs?.has(key)) return kept;
    const others = new Map(pairs);
    others.delete(key);
    return captures.withLabels(others) ?? kept;
  }

  function one(captures, key, pairs, kept) {
    const { texts } = captures.labels.get(key);
    const counts = captures.counts(key, base(captures, pairs, key, kept));
    const chosen = pairs?.get(key) ?? null;
    const text = searched.get(key) ?? "";
    const places = texts.map((_, number) => number).filter((number) => counts[number] && texts[number].toLowerCase().includes(text));
    if (texts.length > AT_FIRST) places.sort((one, other) => counts[other] - counts[one] || other - one);
    const most = open.has(key) ? AT_MOST : AT_FIRST;
    const list = etq.element("ul", { class: "values" });
    const shown = places.slice(0, most);
    if (chosen !== null && !shown.some((number) => texts[number] === chosen)) shown.unshift(texts.indexOf(chosen));
    for (const number of shown.filter((each) => each >= 0)) {
      const isChosen = texts[number] === chosen;
      list.append(etq.element("li", {}, etq.element("button", {
        type: "button", "aria-pressed": isChosen ? "true" : "false", "data-key": key, "data-value": texts[number],
        onclick: () => {
          const next = new Map(pairs ?? []);
          if (isChosen) next.delete(key);
          else next.set(key, texts[number]);
          choose(etq.selectorOf(next));
        },
      }, etq.element("span", { class: "value", text: etq.short(texts[number], 60) }), etq.element("span", { class: "muted count", text: etq.number(counts[number]) }))));
    }
    const box = etq.element("section", { class: "facet", "data-facet": key, "aria-label": `Label ${etq.printable(key)}` }, etq.element("h2", { text: etq.short(key, 60) }));
    if (texts.length > 30) {
      const input = etq.element("input", { type: "search", placeholder: `Search ${etq.number(texts.length)} values`, "aria-label": `Search values of ${etq.printable(key)}`, value: text || null });
      input.addEventListener("input", () => {
        searched.set(key, input.value.toLowerCase());
        draw(...last);
        parent.querySelector(`[data-facet="${CSS.escape(key)}"] input`)?.focus();
      });
      input.value = text;
      box.append(input);
    }
    box.append(list);
    if (places.length > AT_FIRST) {
      box.append(etq.element("button", {
        type: "button", class: "quiet more", text: open.has(key) ? "Fewer" : `${etq.number(places.length - AT_FIRST)} more`,
        onclick: () => {
          if (!open.delete(key)) open.add(key);
          draw(...last);
        },
      }));
    }
    return box;
  }

  function draw(captures, pairs, kept) {
    last = [captures, pairs, kept];
    // Labels with few values come first, because they divide captures into groups.
    const keys = [...captures.labels.keys()].sort((one, other) => {
      const many = (key) => captures.labels.get(key).texts.length > 30;
      return many(one) - many(other) || one.localeCompare(other);
    });
    const focused = document.activeElement?.dataset?.key ? [document.activeElement.dataset.key, document.activeElement.dataset.value] : null;
    parent.replaceChildren(...keys.map((key) => one(captures, key, pairs, kept)));
    if (focused) parent.querySelector(`[data-key="${CSS.escape(focused[0])}"][data-value="${CSS.escape(focused[1])}"]`)?.focus();
  }
  return draw;
};
