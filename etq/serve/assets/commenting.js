// Comments on changes: shown beside each, and written in a dialog where pages may change the warehouse.

// The labels of a series' captures: those of its name, and those that the page's selector has.
function labelsOf(selector, series) {
  const plain = [...(etq.pairsOf(selector ?? "") ?? [])].filter(([key]) => !/[<>!@]/.test(key));
  return etq.selectorOf(new Map([...plain, ...(etq.pairsOf(series ?? "") ?? [])].sort(([one], [other]) => (one < other ? -1 : 1))));
}

const itemOf = ({ what, op, instruction_id: instruction }) => (what === "op" && instruction !== null ? `${op}@${instruction}` : op);
const nameOf = (change) => (change.what === "total" ? `total of ${change.op ?? "all"}` : itemOf(change));

// A dialog that asks for a comment, and sends it.
function askFor(change, { selector, over, by, after }) {
  const text = etq.element("textarea", { required: true, maxlength: 1000, rows: 3 });
  const verdict = etq.choice("verdict", ["accepted", "note"], "accepted", () => {}, { accepted: "accept: it is no regression", note: "note: it stays what it is" });
  const all = etq.element("input", { type: "checkbox" });
  const state = etq.element("p", { role: "status", class: "missing" });
  const title = `Comment on ${etq.printable(etq.short(nameOf(change), 60))} at ${etq.printable(etq.short(change.first_bad, 40))}`;
  const send = async (event) => {
    event.preventDefault();
    state.textContent = "Saving…";
    const what = all.checked ? { what: "all" } : { what: change.what, item: itemOf(change) };
    const given = { first_bad: change.first_bad, text: text.value.trim(), verdict: verdict.value, selector: labelsOf(selector, change.series), over, by, ...what };
    try {
      await etq.edit(Object.fromEntries(Object.entries(given).filter(([, value]) => value)));
      dialog.close();
      await after();
    } catch (error) {
      state.textContent = etq.printable(error.message);
    }
  };
  const dialog = etq.element("dialog", { class: "comment", "aria-label": title, onclose: () => dialog.remove() },
    etq.element("form", { onsubmit: send },
      etq.element("h2", { text: title }),
      change.series ? etq.element("p", { class: "muted", text: etq.printable(change.series) }) : "",
      etq.element("label", {}, "text", text),
      etq.element("label", {}, "verdict", verdict),
      etq.element("label", { class: "whole" }, all, "also for the total, ops and all else that changed there"),
      etq.element("div", { class: "bar" }, etq.element("button", { type: "submit", class: "main", text: "Save" }), etq.element("button", { type: "button", text: "Cancel", onclick: () => dialog.close() })),
      state));
  document.body.append(dialog);
  dialog.showModal();
  text.focus();
}

// What was said about a change, by whom, and a button that says more.
etq.commentCell = (change, context) => etq.element("span", { class: "said" },
  change.comment ? etq.element("span", { text: `${change.is_accepted ? "accepted: " : ""}${etq.printable(etq.short(change.comment, 300))}${change.author ? ` (${etq.printable(change.author)})` : ""} ` }) : "",
  etq.edits && context.after && !change.is_accepted
    ? etq.element("button", { type: "button", class: "quiet", "aria-label": `Comment on ${etq.printable(nameOf(change))} at ${etq.printable(change.first_bad)}`, text: "Comment", onclick: (event) => { event.stopPropagation(); askFor(change, context); } })
    : "");
