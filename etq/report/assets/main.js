// Draws a report's sections, in order.

const titles = { capture: "Capture", graph: "Graph", graphs: "Graphs", difference: "Comparison", trends: "Trends", job: "Job", fleet: "Fleet", home: "Home" };

function drawn(section) {
  const body = etq.element("div");
  if (section.note) body.append(etq.prose(etq.sentence(section.note), "note"));
  if (section.missing) {
    body.append(etq.prose(section.missing, "missing"));
  }
  const grids = section.grids.map((grid) => [grid.name, grid.rows]);
  const tables = Object.fromEntries([...grids, ...Object.entries(section.tables)].map(([name, each]) => [name, new etq.Table(each)]));
  const box = etq.element("section", { id: section.kind, "aria-labelledby": `${section.kind}-title` },
    etq.element("h2", { id: `${section.kind}-title`, text: section.title }), body);
  document.getElementById("sections").append(box);
  // The section is drawn after it was added to the page, because a canvas needs its width.
  const isEmpty = Object.values(tables).every((each) => !each.length);
  const added = (!isEmpty || !section.missing) && etq.drawers.get(section.kind)?.(body, tables, section.facts);
  for (const grid of section.grids) etq.grid(added?.parent?.(grid.name) ?? body, grid, added?.[grid.name]);
}

etq.drawReport = (report) => {
  document.getElementById("head").append(
    etq.element("div", {}, etq.element("span", { class: "muted", text: titles[report.kind] ?? report.kind }), etq.element("h1", { text: report.title })),
    etq.themeButton(),
  );
  document.getElementById("foot").textContent = `Made by ${report.made_by}. Times are as the runtime logged them; what is unknown is left out.`;
  etq.drawSections(report.sections);
};

// Appends sections.
etq.drawSections = (sections) => {
  const contents = document.getElementById("contents");
  for (const section of sections) contents.append(etq.element("a", { href: `#${section.kind}`, text: section.title }));
  for (const section of sections) drawn(section);
};
