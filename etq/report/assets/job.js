// A job: what was found, and what each rank does in a step.

etq.section("job", (parent, { ranks }, facts) => {
  parent.append(etq.element("p", { class: "told", text: facts.sentence }));
  const share = (value) => (value === null ? "unknown" : etq.percent(value));
  const of = facts.world_size > facts.ranks ? ` of ${etq.number(facts.world_size)}; missing: ${facts.missing}` : "";
  parent.append(etq.cards([
    etq.card("ranks", etq.number(facts.ranks ?? 0) + of, `${etq.number(facts.steps ?? 0)} steps`, {}),
    etq.card("waits", share(facts.waited_percent), "of the steps of all ranks", {}),
    etq.card("exposed communication", share(facts.exposed_percent), "of the steps, while nothing is computed", {}),
  ]));
  const list = etq.element("ol", { class: "ranks", "aria-label": "What each rank does in a step" });
  const longest = Math.max(...ranks.list("step"));
  for (const row of ranks.rows()) {
    const get = (name) => ranks.get(row, name);
    const parts = [["computes", get("computation")], ["waits", get("waited")], ["transfers", get("transfer")]];
    const line = etq.element("span", { class: "parts", "aria-hidden": "true" });
    for (const [name, time] of parts) {
      const part = etq.element("span", { class: name });
      part.style.width = `${(100 * (time ?? 0)) / longest}%`;
      line.append(part);
    }
    const shown = [["step", get("step")], ...parts, ["waited for", get("waited_for")]]
      .map(([name, time]) => `${name} ${time === null ? "unknown" : etq.quantity(time, get("unit"))}`);
    list.append(etq.element("li", {}, etq.element("span", { text: `rank ${get("rank")}` }), line,
      etq.element("span", { class: "muted", text: shown.join(" · ") })));
  }
  parent.append(list);
});
