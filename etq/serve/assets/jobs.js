// The page of jobs: their list, and the report of one.

etq.pageOfJobs = async () => {
  const list = etq.element("nav", { class: "chips", "aria-label": "Jobs" });
  document.getElementById("tools").append(list);
  const selectorOf = (job) => etq.selectorOf([["job", job]]);

  async function load() {
    const { selector, unit } = etq.parameters();
    await etq.work("Reading the job…", async (signal) => {
      const { jobs, report } = await etq.ask("jobs", { selector, unit }, signal);
      etq.clear();
      list.replaceChildren(...jobs.filter(({ job }) => job !== null).map(({ job, ranks }) => etq.element("button", {
        type: "button", "aria-pressed": String(selector === selectorOf(job) || (!selector && report !== null)), onclick: () => {
          etq.setParameters({ selector: selectorOf(job) });
          load();
        },
      }, `${etq.printable(job)} `, etq.element("b", { text: ranks }))));
      if (report) etq.drawReport(report);
      else {
        document.getElementById("head").append(etq.element("h1", { text: "Jobs" }), etq.themeButton());
        const none = `No trace has the labels job and rank: add those of a job's ranks with etq ingest FOLDER --job NAME --db ${etq.source}`;
        etq.state(jobs.length ? "Choose a job." : none);
      }
      etq.showSection();
    });
  }

  etq.reload = load;
  etq.onStep(load);
  await load();
};
