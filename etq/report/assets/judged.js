// A change as elements: its verdict in words and a colour, the change with its interval, times of both sides.

// A change of a thousand percent has no decimals, one below 1 % has two.
const signed = [0, 1, 2].map((digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits, signDisplay: "exceptZero" }));
const bare = (value) => signed[Math.abs(value) >= 1000 ? 0 : Math.abs(value) < 1 ? 2 : 1].format(value).replace("-", "\u2212");

etq.change = (value) => (value === null || value === undefined ? "" : `${bare(value)}\u00a0%`);
etq.interval = (low, high) => (low === null || high === null ? "" : `${bare(low)} to ${bare(high)}\u00a0%`);

// The words of `etq.verdicts.words`, written by `script_of`.
const { keys, shown, counting, order } = VERDICT_WORDS;
const CLASSES = { [keys.slower]: "slow", [keys.worse]: "slow", [keys.faster]: "fast", [keys.better]: "fast", [keys.same]: "same" };
etq.verdicts = keys;
etq.words = shown;
etq.orderOfVerdicts = order;
etq.counts = (verdict) => counting.includes(verdict);
etq.isOfOneSide = (verdict) => verdict === keys.added || verdict === keys.removed;
etq.verdictClass = (verdict) => CLASSES[verdict] ?? "open";

etq.verdict = (verdict) => {
  if (verdict === null) return "";
  return etq.element("span", { class: `verdict ${etq.verdictClass(verdict)}`, text: verdict, title: etq.words[verdict] });
};

// The colour of a change: stronger for larger changes; pale for changes without a verdict.
etq.changeColour = (change, verdict) => {
  if (etq.isOfOneSide(verdict)) return "came";
  if (change === null || change === undefined || Math.abs(change) < 0.5) return "same";
  const step = verdict === keys.same || verdict === keys.open ? 1 : 1 + [2, 5, 20].filter((limit) => Math.abs(change) >= limit).length;
  return `${change > 0 ? "slower" : "faster"}-${step}`;
};

etq.probability = (value) => (value === null ? "" : value < 0.001 ? "< 0.001" : etq.number(value));
