// Shared by all sections: sections by kind, elements, tables as columns. Names in the data come from files and may be
// hostile: they are shown only as text nodes, never as markup.

globalThis.etq = {
  drawers: new Map(),
  redraws: new Set(),
  narrow: matchMedia("(max-width: 40rem)"), // a phone, as in page.css

  // Registers a function, by the kind of section, that draws the part above the section's tables: draw(parent, tables,
  // facts). It may return additions to tables, by the tables' names, see `etq.grid`.
  section(kind, draw) {
    etq.drawers.set(kind, draw);
  },

  // An element with attributes ("text" is its text; on… are listeners) and children, which are nodes or texts.
  element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "text") made.textContent = etq.printable(etq.short(value, 2000));
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  },

  // A text in which control characters, and characters that change direction, are written out.
  printable(text) {
    const obeyed = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
    return String(text).replace(obeyed, (letter) => {
      const code = letter.codePointAt(0).toString(16);
      if (code.length > 4) return `\\U${code.padStart(8, "0")}`;
      return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
    });
  },

  // A text as nodes. Its lines may also break within names, after :: _ , . and /.
  broken(text) {
    const parts = etq.printable(etq.short(text, 2000)).split(/(?<=::|[_,])(?=\w)|(?<=[./])(?=[A-Za-z])/);
    return parts.flatMap((part, at) => (at ? [etq.element("wbr"), part] : [part]));
  },

  // A text, cut at its end if it is too long.
  short(value, most = 200) {
    const text = String(value);
    return text.length > most ? `${text.slice(0, most)}…` : text;
  },

  // A text, cut in its middle if it is too long, because the ends of names distinguish them.
  middle(value, most) {
    const text = String(value);
    const half = Math.floor((most - 1) / 2);
    return text.length > most ? `${text.slice(0, most - 1 - half)}…${text.slice(-half)}` : text;
  },

  // A commit's hash cut to its first 12 digits; other texts are unchanged.
  shortHash: (text) => (/^[0-9a-f]{16,}$/.test(text ?? "") ? text.slice(0, 12) : text),

  // The value of a label; under the pointer, a hash is shown in full.
  labelOf(text) {
    const short = etq.shortHash(text);
    return short === text ? text : etq.element("span", { text: short, title: text });
  },

  // A paragraph. It doesn't break between a number and its unit, or within the name of an option.
  prose(text, kind = null) {
    const kept = /((?<!\S)--[a-z][\w-]*|\d (?:%|[µmn]?s\b))/;
    const parts = etq.printable(etq.short(text, 2000)).split(kept);
    return etq.element("p", { class: kind }, ...parts.map((part, at) => (at % 2 ? etq.element("span", { class: "unbroken", text: part }) : part)));
  },

  // A button; if it has only a sign, its title is its name.
  button(text, title, act, id = null) {
    return etq.element("button", { type: "button", id, text, title, "aria-label": /[A-Za-z]/.test(text) ? null : title, onclick: act });
  },

  // The name of a capture; a link if the host of the report has pages of captures, `etq.linkOf(name)`.
  captureName(name) {
    return etq.linkOf && name !== null ? etq.element("a", { href: etq.linkOf(name), text: name }) : (name ?? "");
  },

  // Draws again when the theme changes, when a phone is turned, and for printing.
  onRedraw(draw) {
    etq.redraws.add(draw);
  },

  redraw() {
    for (const draw of etq.redraws) draw();
  },
};

// A table as in the page's data: by columns, with each distinct text once.
etq.Table = class {
  constructor({ names, columns, length }) {
    this.length = length;
    this.columns = new Map(names.map((name, at) => [name, columns[at]]));
  }

  has(name) {
    const column = this.columns.get(name);
    if (!column) return false;
    return column.texts ? column.at.some((at) => at >= 0) : column.some((value) => value !== null);
  }

  get(row, name) {
    const column = this.columns.get(name);
    if (!column) return null;
    if (column.texts) return column.at[row] < 0 ? null : column.texts[column.at[row]];
    return column[row];
  }

  // A text in its shown form, with shortened names of kernels; other values are unchanged.
  short(row, name) {
    const column = this.columns.get(name);
    return column?.short && column.at[row] >= 0 ? column.short[column.at[row]] : this.get(row, name);
  }

  // All values of a column.
  list(name) {
    return Array.from({ length: this.length }, (_, row) => this.get(row, name));
  }

  rows() {
    return Array.from({ length: this.length }, (_, row) => row);
  }
};
