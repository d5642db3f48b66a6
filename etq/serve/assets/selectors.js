// Selectors, as on the command line: key=value parts with commas between; a value with a comma is in quotation marks.
// Times (captured_at>=2026-11-15, since=7d), too, are for the server.

const PART = /([^,="]+)="((?:[^"]|"")*)"|([^,]+)/gy;
const TIME = /^(captured_at *[<>]|since=)/;

// The parts of a selector as pairs of key and value; null if it has other words, which the server resolves.
etq.pairsOf = (text) => {
  const pairs = new Map();
  let at = 0;
  while (at < text.length) {
    PART.lastIndex = at;
    const found = PART.exec(text);
    if (!found) return null;
    at = PART.lastIndex;
    if (at < text.length && text[at] !== ",") return null;
    at += 1;
    const [, key, quoted, plain] = found;
    if (key !== undefined) pairs.set(key, quoted.replaceAll('""', '"'));
    else {
      const cut = plain.indexOf("=");
      if (TIME.test(plain) || cut < 1 || pairs.has(plain.slice(0, cut))) return null;
      pairs.set(plain.slice(0, cut), plain.slice(cut + 1));
    }
  }
  return pairs;
};

etq.selectorOf = (pairs) =>
  [...pairs].map(([key, value]) => `${key}=${/[,"]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value}`).join(",");

// All captures, as the server has them: rows, labels by key, places by name.
etq.Captures = class {
  constructor({ rows, labels }) {
    this.table = new etq.Table(rows);
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

// The captures that a text chooses, as bytes: by labels here, by anything else at the server.
etq.chosenBy = async (captures, text, signal) => {
  if (text === "") return new Uint8Array(captures.length).fill(1);
  const pairs = etq.pairsOf(text);
  const kept = pairs && captures.withLabels(pairs);
  if (kept && kept.includes(1)) return kept;
  const found = new Uint8Array(captures.length);
  for (const place of (await etq.ask("matches", { selector: text }, signal)).places) found[place] = 1;
  return found;
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

// A list of what can be typed into a box of selectors.
etq.suggestions = (captures) => {
  const list = etq.element("datalist", { id: "selectors" });
  const texts = ["@latest"];
  for (const [key, { texts: values }] of captures.labels) for (const value of values.slice(0, 50)) texts.push(etq.selectorOf([[key, value]]));
  for (const name of captures.names.slice(0, 500)) texts.push(name);
  for (const value of texts) list.append(etq.element("option", { value }));
  return list;
};
