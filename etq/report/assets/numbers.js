// Numbers for people, with four significant digits and separated thousands. An unknown number is an empty text. A
// number beside its unit has all four digits. Numbers in a column of a table have the same decimals.

const DIGITS = 4;
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const four = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

etq.number = (value) => {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return etq.printable(value);
  return Math.abs(value) >= 1000 || Number.isInteger(value) ? whole.format(value) : four.format(value);
};

const exactly = new Intl.NumberFormat("en", { minimumSignificantDigits: DIGITS, maximumSignificantDigits: DIGITS });
const two = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const isPart = (value) => typeof value === "number" && !Number.isInteger(value);

// All digits of a time, or of another number with a fraction.
etq.digits = (value) => (isPart(value) && Math.abs(value) < 1000 ? exactly.format(value) : etq.number(value));

// The decimals for the numbers of a column: the largest number gets four digits, and a largest number below 10 gets at
// least one decimal. Null if all numbers are whole.
etq.decimals = (values) => {
  const sizes = values.filter(Number.isFinite).map(Math.abs).filter(Boolean);
  if (!sizes.some(isPart)) return null;
  const [least, most] = sizes.reduce(([low, high], size) => [Math.min(low, size), Math.max(high, size)], [Infinity, 0]);
  return Math.min(Math.max(DIGITS - 1 - Math.floor(Math.log10(most)), least < 10 ? 1 : 0), 12);
};

// A number with these decimals. If a number other than 0 would be shown as 0, it is shown as less than the smallest
// one.
etq.fixed = (value, decimals) => {
  if (typeof value !== "number" || decimals === null || decimals === undefined) return etq.number(value);
  const least = 10 ** -decimals;
  if (value !== 0 && Math.abs(value) < least / 2) return `${value > 0 ? "<" : ">\u2212"}${least.toFixed(decimals)}`;
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace("-", "\u2212");
};

const units = new Map([["us", "µs"], ["percent", "%"]]);
etq.unit = (unit) => (unit === null || unit === undefined ? "" : (units.get(unit) ?? etq.printable(unit)));

// A sentence with us replaced by µs, as in tables.
etq.sentence = (text) => text.replace(/(\d) us\b/g, "$1\u00a0\u00b5s");

// A number and its unit, without a line break between them.
etq.quantity = (value, unit) =>
  value === null || value === undefined ? "" : `${etq.digits(value)}\u00a0${etq.unit(unit)}`;

etq.percent = (value) => {
  if (value === null || value === undefined) return "";
  const rounded = +value.toFixed(2);
  return `${(isPart(rounded) && Math.abs(rounded) < 1000 ? two.format(rounded) : four.format(rounded)).replace("-", "\u2212")}\u00a0%`;
};

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
