// Advice: findings, the most severe first, each with its evidence, its cost and a remedy.

etq.section("advice", (parent, { advice }) => {
  const list = etq.element("ol", { class: "advice" });
  for (const row of advice.rows()) {
    const get = (name) => advice.get(row, name);
    const stake = get("time_at_stake");
    const share = get("share_percent") === null ? "" : `${etq.percent(get("share_percent"))} of ${get("share_of")}`;
    const cost = stake === null ? share : `${etq.quantity(stake, get("unit"))}${share && ` (${share})`}`;
    list.append(
      etq.element("li", { "data-rule": get("rule") },
        etq.element("div", {},
          get("severity") === null ? null : etq.element("span", { class: `severity ${get("severity")}`, text: get("severity") }),
          etq.element("strong", { text: get("rule") }),
          etq.element("span", { class: "muted", text: cost }),
        ),
        etq.prose(etq.sentence(get("finding"))),
        get("evidence") === null ? null : etq.prose(etq.sentence(`Evidence: ${get("evidence")}`), "muted"),
        get("remedy") === null ? null : etq.prose(get("remedy")),
      ),
    );
  }
  parent.append(list);
});
