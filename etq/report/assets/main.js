// The page: unpacks its data and draws its sections, in order.

const titles = { capture: "Capture", difference: "Comparison", trends: "Trends" };

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function drawn(section) {
  const body = etq.element("div");
  if (section.note) body.append(etq.element("p", { class: "note", text: section.note }));
  if (section.missing) {
    body.append(etq.element("p", { class: "missing", text: section.missing }));
  }
  const tables = Object.fromEntries(Object.entries(section.tables).map(([name, each]) => [name, new etq.Table(each)]));
  const box = etq.element("section", { id: section.kind, "aria-labelledby": `${section.kind}-title` },
    etq.element("h2", { id: `${section.kind}-title`, text: section.title }), body);
  document.getElementById("sections").append(box);
  // Drawn once it is in the page: a canvas has to know its width.
  if (Object.keys(tables).length && !(section.missing && Object.values(tables).every((each) => !each.length))) {
    etq.drawers.get(section.kind)(body, tables, section.facts);
  }
}

async function start() {
  const report = await unpacked(document.getElementById("data").textContent);
  document.getElementById("head").append(
    etq.element("div", {}, etq.element("span", { class: "muted", text: titles[report.kind] ?? report.kind }), etq.element("h1", { text: report.title })),
    etq.themeButton(),
  );
  const contents = document.getElementById("contents");
  for (const section of report.sections) contents.append(etq.element("a", { href: `#${section.kind}`, text: section.title }));
  document.getElementById("foot").textContent = `Made by ${report.made_by}. Times are as the runtime logged them; what is unknown is left out.`;
  for (const section of report.sections) drawn(section);
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  document.getElementById("sections").append(etq.element("p", { class: "missing", text: `This report could not be drawn: ${error.message}` }));
  document.documentElement.dataset.ready = "failed";
  throw error;
});
