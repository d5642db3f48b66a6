// Shared by all sections: sections by kind, elements, tables as columns. Names in the data come from files and may be
// hostile: they are shown by text nodes alone, never as markup.

globalThis.etq = {
  drawers: new Map(),
  redraws: new Set(),
  narrow: matchMedia("(max-width: 40rem)"), // a phone, as in page.css

  // Registers the function that draws what is above the tables of a kind of section: draw(parent, tables, facts). It may
  // return, by the name of a table, what it adds to it: see `etq.grid`.
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

  // A text with control characters and changes of direction written out.
  printable(text) {
    const obeyed = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
    return String(text).replace(obeyed, (letter) => {
      const code = letter.codePointAt(0).toString(16);
      if (code.length > 4) return `\\U${code.padStart(8, "0")}`;
      return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
    });
  },

  // A text as nodes; a line of it may also break within names, after :: _ . and /.
  broken(text) {
    const parts = etq.printable(etq.short(text, 2000)).split(/(?<=::|_)(?=\w)|(?<=[./])(?=[A-Za-z])/);
    return parts.flatMap((part, at) => (at ? [etq.element("wbr"), part] : [part]));
  },

  // The part of a text that fits.
  short(value, most = 200) {
    const text = String(value);
    return text.length > most ? `${text.slice(0, most)}…` : text;
  },

  // A text that is cut in the middle: the ends of names tell them apart.
  middle(value, most) {
    const text = String(value);
    const half = Math.floor((most - 1) / 2);
    return text.length > most ? `${text.slice(0, most - 1 - half)}…${text.slice(-half)}` : text;
  },

  // A hash as git shows a commit; other texts are as they are.
  shortHash: (text) => (/^[0-9a-f]{16,}$/.test(text ?? "") ? text.slice(0, 10) : text),

  // The value of a label; a hash is in full where the pointer is on it.
  labelOf(text) {
    const short = etq.shortHash(text);
    return short === text ? text : etq.element("span", { text: short, title: text });
  },

  // A paragraph; a number and its unit, and the name of an option, stay in one line.
  prose(text, kind = null) {
    const kept = /((?<!\S)--[a-z][\w-]*|\d (?:%|[µmn]?s\b))/;
    const parts = etq.printable(etq.short(text, 2000)).split(kept);
    return etq.element("p", { class: kind }, ...parts.map((part, at) => (at % 2 ? etq.element("span", { class: "unbroken", text: part }) : part)));
  },

  // A button; its title is the name of one that has only a sign.
  button(text, title, act, id = null) {
    return etq.element("button", { type: "button", id, text, title, "aria-label": /[A-Za-z]/.test(text) ? null : title, onclick: act });
  },

  // The name of a capture: a link where the host of the report has a page for each, `etq.linkOf(name)`.
  captureName(name) {
    return etq.linkOf && name !== null ? etq.element("a", { href: etq.linkOf(name), text: name }) : (name ?? "");
  },

  // Draws again when the theme changes, a phone is turned, and for paper.
  onRedraw(draw) {
    etq.redraws.add(draw);
  },

  redraw() {
    for (const draw of etq.redraws) draw();
  },
};

// A table as the page's data has it: by columns, texts once each.
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

  // A text as people read it, as etq shortens names of kernels; any other value as it is.
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
