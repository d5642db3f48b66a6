// Advice: findings, the most severe first, each with its evidence, its cost and a remedy.

etq.section("advice", (parent, { advice }) => {
  const list = etq.element("ol", { class: "advice" });
  for (const row of advice.rows()) {
    const get = (name) => advice.get(row, name);
    const stake = get("time_at_stake");
    const of = {
      "device idle": "of the device's time", "critical path": "of the critical path", "device time": "of the time of kernels, copies and fills",
      "fusable kernels": "of the devices' time from first to last event",
      "below the roof": "of the time of kernels, copies and fills",
    }[get("rule")] ?? "an execute";
    const cost = stake === null ? "" : `${etq.quantity(stake, get("unit"))} ${of}${get("share_percent") === null ? "" : ` (${etq.percent(get("share_percent"))})`}`;
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
