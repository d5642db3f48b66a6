// Draws the page of this shell.

const pages = { home: etq.pageOfHome, captures: etq.pageOfCaptures, capture: etq.pageOfCapture, compare: etq.pageOfComparison, trends: etq.pageOfTrends, fleet: etq.pageOfFleet, jobs: etq.pageOfJobs, sql: etq.pageOfSql };

etq.linkOf = (name) => etq.captureLink(name);
etq.state("");
etq.known.then(() => pages[etq.page]()).catch((error) => {
  etq.state(`This page could not be drawn: ${error.message}`, true);
  document.documentElement.dataset.ready = "failed";
  throw error;
});
