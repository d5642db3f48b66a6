// The page of a report: unpacks the data in it and draws it.

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

async function start() {
  etq.drawReport(await unpacked(document.getElementById("data").textContent));
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  document.getElementById("sections").append(etq.element("p", { class: "missing", text: `This report could not be drawn: ${error.message}` }));
  document.documentElement.dataset.ready = "failed";
  throw error;
});
