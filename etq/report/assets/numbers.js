// Numbers for people: four significant digits, thousands separated; an unknown number is empty, never zero.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const four = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

etq.number = (value) => {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return etq.printable(value);
  return Math.abs(value) >= 1000 || Number.isInteger(value) ? whole.format(value) : four.format(value);
};

const units = new Map([["us", "µs"], ["percent", "%"]]);
etq.unit = (unit) => (unit === null || unit === undefined ? "" : (units.get(unit) ?? etq.printable(unit)));

// A sentence with the sign for microseconds that tables have.
etq.sentence = (text) => text.replace(/(\d) us\b/g, "$1\u00a0\u00b5s");

// A number and its unit, which no line break parts.
etq.quantity = (value, unit) =>
  value === null || value === undefined ? "" : `${etq.number(value)}\u00a0${etq.unit(unit)}`;

etq.percent = (value) => (value === null || value === undefined ? "" : `${four.format(+value.toFixed(2)).replace("-", "\u2212")}\u00a0%`);

etq.bytes = (value) => {
  if (value === null || value === undefined) return "";
  const names = ["B", "KiB", "MiB", "GiB"];
  let size = value;
  let at = 0;
  while (Math.abs(size) >= 1024 && at < names.length - 1) {
    size /= 1024;
    at += 1;
  }
  return `${etq.number(size)}\u00a0${names[at]}`;
};
