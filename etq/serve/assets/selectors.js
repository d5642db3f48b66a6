// Selectors, as on the command line, and the captures that they choose.

// All captures, as the server sends them: rows, labels by key, places by name.
etq.Captures = class {
  constructor({ rows, labels, views }) {
    this.table = new etq.Table(rows);
    this.views = new Map(views.map((view) => [`@${view.name}`, view]));
    this.labels = new Map(Object.entries(labels));
    this.names = this.table.list("name");
    this.placeOf = new Map(this.names.map((name, place) => [name, place]));
  }

  get length() {
    return this.table.length;
  }

  label(key, place) {
    const column = this.labels.get(key);
    return column && column.at[place] >= 0 ? column.texts[column.at[place]] : null;
  }

  // The places that have all these labels, as bytes; null if a key or a value is unknown.
  withLabels(pairs) {
    const kept = new Uint8Array(this.length).fill(1);
    for (const [key, value] of pairs) {
      const column = this.labels.get(key);
      const number = column ? column.texts.indexOf(value) : -1;
      if (number < 0) return null;
      const { at } = column;
      for (let place = 0; place < kept.length; place += 1) if (at[place] !== number) kept[place] = 0;
    }
    return kept;
  }

  // How many of the kept captures have each value of a label.
  counts(key, kept) {
    const { texts, at } = this.labels.get(key);
    const counts = new Uint32Array(texts.length);
    for (let place = 0; place < at.length; place += 1) if (kept[place] && at[place] >= 0) counts[at[place]] += 1;
    return counts;
  }
};

etq.series = async (signal, options = {}) => new etq.Series(await etq.ask("series", options, signal));

// The captures that a text chooses, as bytes, and the text's labels by key. The labels are null if the text has
// anything else.
etq.chosenBy = async (captures, text, signal) => {
  if (text === "") return { kept: new Uint8Array(captures.length).fill(1), pairs: new Map() };
  const { places, pairs } = await etq.ask("matches", { selector: text }, signal);
  const kept = new Uint8Array(captures.length);
  for (const place of places) kept[place] = 1;
  return { kept, pairs: pairs && new Map(Object.entries(pairs)) };
};

let known = null;
etq.captures = async (signal) => {
  known ??= etq.ask("captures", {}, signal).then((data) => new etq.Captures(data));
  return known.catch((error) => {
    known = null;
    throw error;
  });
};
etq.forgetCaptures = () => {
  known = null;
};

// The suggestions for a field of selectors.
etq.suggestions = (captures) => {
  const list = etq.element("datalist", { id: "selectors" });
  const texts = ["@latest", ...captures.views.keys()];
  for (const [key, { texts: values }] of captures.labels) for (const value of values.slice(0, 50)) texts.push(etq.selectorOf([[key, value]]));
  for (const name of captures.names.slice(0, 500)) texts.push(name);
  for (const value of texts) list.append(etq.element("option", { value }));
  return list;
};
