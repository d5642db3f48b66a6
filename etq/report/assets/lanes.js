// The ranks of a job in time: for each step, a lane of each rank, on one clock.

const KINDS = { step: ["step on the host", "host"], computation: ["computes", "computes"], wait: ["waits", "waits"], transfer: ["transfers", "transfers"], collective: ["in a collective, wait not known", "unknown"] };

etq.section("lanes", (parent, { lanes }, { cells }) => {
  const rows = lanes.rows().map((row) => Object.fromEntries(["step", "rank", "kind", "first_cell", "end_cell", "first", "time", "span", "waited", "unit"].map((name) => [name, lanes.get(row, name)])));
  const kinds = Object.keys(KINDS).filter((kind) => rows.some((row) => row.kind === kind));
  parent.append(
    etq.element("p", { class: "muted", text: `On clocks that are aligned by collectives. Each ${cells}th of a step shows what takes most of it.` }),
    etq.element("p", { class: "legend" }, ...kinds.map((kind) => etq.element("span", {}, etq.element("i", { class: `piece ${KINDS[kind][1]}` }), KINDS[kind][0]))));
  const figures = etq.element("div", { class: "lanes" });
  for (const [step, of] of Map.groupBy(rows, (row) => row.step)) {
    const figure = etq.element("figure", {}, etq.element("h3", {}, step === null ? "recording" : `step ${step}`,
      etq.element("span", { class: "muted", text: `${etq.quantity(of[0].span, of[0].unit)}; these ranks wait ${etq.quantity(of[0].waited, of[0].unit)} in all` })));
    for (const [rank, pieces] of Map.groupBy(of, (row) => row.rank)) figure.append(laneOf(rank, pieces, kinds, cells));
    figure.append(etq.element("div", { class: "lane ends muted", "aria-hidden": "true" }, etq.element("span"), etq.element("span", {}, etq.element("span", { text: "0" }), etq.element("span", { text: etq.quantity(of[0].span, of[0].unit) }))));
    figures.append(figure);
  }
  parent.append(figures);
});

function laneOf(rank, pieces, kinds, cells) {
  const times = kinds.flatMap((kind) => {
    const time = pieces.filter((piece) => piece.kind === kind).reduce((sum, piece) => sum + piece.time, 0);
    return time ? [`${KINDS[kind][0]} ${etq.quantity(time, pieces[0].unit)}`] : [];
  });
  const bar = etq.element("span", { class: "bar-of", role: "img", "aria-label": `rank ${rank}: ${times.join(", ")}` });
  // The step's span is drawn below the others.
  for (const piece of [...pieces].sort((one, other) => (other.kind === "step") - (one.kind === "step"))) {
    const [text, name] = KINDS[piece.kind];
    const made = etq.element("span", { class: `piece ${name}`, title: `rank ${rank} ${text}: ${etq.quantity(piece.time, piece.unit)}, from ${etq.quantity(piece.first, piece.unit)} on` });
    Object.assign(made.style, { left: `${(100 * piece.first_cell) / cells}%`, width: `${(100 * (piece.end_cell - piece.first_cell)) / cells}%` });
    bar.append(made);
  }
  return etq.element("div", { class: "lane" }, etq.element("span", { text: `rank ${rank}` }), bar);
}
