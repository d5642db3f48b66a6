// Operations per second over operations per byte, both logarithmic: a point for each op and shape, and the roofs.
etq.section("efficiency", (parent, { shapes }, { bandwidth }) => {
  const value = (row, name) => shapes.get(row, name);
  const rows = shapes.rows().filter((row) => value(row, "intensity") > 0 && value(row, "flops_per_second") > 0);
  if (!rows.length || !(bandwidth > 0)) return;
  const peaks = [...new Set(rows.map((row) => value(row, "peak_flops")).filter((peak) => peak > 0))].sort((a, b) => b - a);
  const corners = peaks.map((peak) => peak / bandwidth);
  const places = rows.map((row) => value(row, "intensity"));
  // uPlot's marks begin at the lowest value. If it isn't a power of ten and below 0.1, they never end.
  const low = Number(`1e${Math.floor(Math.log10(Math.min(...places, ...corners) / 1.2))}`);
  const high = Math.max(...places, ...corners) * 2;
  const points = [...rows.map((row) => ({ at: value(row, "intensity"), row })), ...[low, ...corners, high].map((at) => ({ at, row: null }))].sort((a, b) => a.at - b.at);
  const families = [...new Set(rows.map((row) => value(row, "family")))].slice(0, 5);
  const colours = ["accent", "delegate", "warm", "bad", "muted"];
  const show = (rate) => `${etq.number(rate / 1e12)}\u00a0TFLOP/s`;
  const roofs = () => peaks.slice(0, 3).map((peak) => [etq.line(`roof ${show(peak)}`, "muted", show), points.map(({ at }) => Math.min(peak, at * bandwidth))]);
  const dots = () => families.map((family, place) => [
    etq.points(family ?? "(unknown)", colours[place], 7, show),
    points.map(({ row }) => (row !== null && value(row, "family") === family ? value(row, "flops_per_second") : null)),
  ]);
  etq.plot(parent, () => {
    const series = [...roofs(), ...dots()];
    return [
      {
        scales: { x: { time: false, distr: 3, range: [low, high] }, y: { distr: 3 } },
        axes: [etq.axis("operations per byte", etq.number, { size: 34 }), etq.axis("TFLOP/s", (rate) => etq.number(rate / 1e12))],
        series: [{ label: "op", value: etq.legendOf((_, place) => (points[place]?.row === null ? "" : etq.printable(`${value(points[place].row, "op") ?? "(no op)"} ${value(points[place].row, "inputs") ?? ""}`))) }, ...series.map(([options]) => options)],
      },
      [points.map(({ at }) => at), ...series.map(([, rates]) => rates)],
    ];
  });
});
