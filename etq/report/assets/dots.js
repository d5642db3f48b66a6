// Changes as points with their intervals, on one scale.

etq.changeOf = (table, row) => {
  const [change, low, high, verdict] = ["change_percent", "low_percent", "high_percent", "verdict"].map((name) => table.get(row, name));
  return { change, low, high, verdict };
};

// The scale of changes; `place` is a value's position on it.
etq.changeScale = (changes) => {
  const ends = changes.flatMap(({ change, low, high }) => [change, low, high]).filter((each) => each !== null);
  // An interval much wider than any change is cut at the edge.
  const most = Math.max(1, ...changes.map(({ change }) => Math.abs(change)));
  const end = Math.min(Math.max(1, ...ends.map(Math.abs)), 2.5 * most);
  // Leaves room for a circle at an end, so that even narrow screens don't cut it.
  return { end, place: (value) => `calc(50% + (50% - .35rem) * ${Math.max(-1, Math.min(1, value / (1.05 * end)))})` };
};

etq.changeTicks = ({ end, place }) => etq.element("span", { class: "track" }, ...[-end, 0, end].map((value) => {
  const mark = etq.element("span", { class: "tick", text: etq.change(value) });
  mark.style.left = place(value);
  return mark;
}));

// A change on its scale: filled if it counts.
etq.changeTrack = ({ change, low, high, verdict }, { place }) => {
  const colour = etq.counts(verdict) ? (change > 0 ? "slower-4" : "faster-4") : "muted";
  const track = etq.element("span", { class: "track" }, etq.element("span", { class: "zero" }));
  if (low !== null) {
    const bar = etq.element("span", { class: "interval" });
    bar.style.left = place(low);
    bar.style.right = `calc(100% - ${place(high)})`;
    bar.style.background = `var(--${colour})`;
    track.append(bar);
  }
  const point = etq.element("span", { class: "point" });
  point.style.left = place(change);
  point.style.borderColor = `var(--${colour})`;
  if (etq.counts(verdict)) point.style.background = `var(--${colour})`;
  track.append(point);
  return track;
};

// The text of a change's tooltip.
etq.changePairs = ({ change, low, high, verdict }) => {
  const interval = etq.interval(low, high);
  return [
    ["change", `${etq.change(change)}${interval ? ` (${interval})` : ""}`],
    ["verdict", etq.words[verdict] ?? verdict],
  ];
};
