// The page of SQL: an editor, the documentation of the view at the cursor, examples, and the result.

const EXAMPLES = [
  ["Which ops take most time in a capture?", (name) => `FROM op_totals(${name}) LIMIT 20`],
  ["Which captures are there, by device?", () => "FROM capture_groups('device')"],
  ["What are the latest captures?", () => "SELECT name, captured_at, ingested_at\nFROM captures\nORDER BY coalesce(captured_at, ingested_at) DESC, ingested_at DESC\nLIMIT 20"],
  ["How does the execute time change over builds?", () => "SELECT series, label, capture, p25, unit, change_percent\nFROM trend()"],
  ["What became slower, and stayed so?", () => "FROM regressions() WHERE verdict = 'slower' AND stage = 'kept'"],
  ["What differs between two captures?", (name, other) => `FROM compare_ops(${other}, ${name}) LIMIT 20`],
  ["Which runs of a capture are slow?", (name) => `FROM slow_runs(${name})`],
  ["How long does each run take?", (name) => `SELECT run_index, execute, is_outlier, unit FROM run_times(${name})`],
  ["Where does the framework's time go?", (name) => `FROM framework_tax(${name})`],
  ["Which labels do captures have?", () => "SELECT key, count(DISTINCT value) AS n, count(*) AS captures\nFROM labels\nGROUP BY key\nORDER BY key"],
];
// The most useful views come first; others follow, tables last.
const WANTED = [
  "op_totals", "module_totals", "source_totals", "advice", "run_times", "event_times", "slow_runs", "execute_breakdown", "delegate_totals",
  "compare_captures", "compare_ops", "trend", "regressions", "capture_summary", "capture_groups", "events", "key_averages", "step_breakdown", "kernel_table",
];
const placeOf = ({ name, kind }) => (WANTED.includes(name) ? WANTED.indexOf(name) : WANTED.length + (kind === "table"));
const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

etq.pageOfSql = async () => {
  const main = document.getElementById("sections");
  main.classList.add("sql");
  document.getElementById("head").append(etq.element("h1", { text: "SQL" }), etq.themeButton());
  const host = etq.element("div", { class: "editor" });
  const docs = etq.element("aside", { class: "docs", "aria-label": "Documentation" });
  const output = etq.element("section", { id: "output", "aria-label": "Result" });
  const run = etq.element("button", { type: "button", class: "main", id: "run", text: "Run", title: "Ctrl+Enter", onclick: () => ask() });
  const stop = etq.element("button", { type: "button", id: "stop", text: "Stop", hidden: true, onclick: () => stopped?.abort() });
  const examples = etq.choice("examples", ["", ...EXAMPLES.map(([question]) => question)], "", (question) => {
    const found = EXAMPLES.find(([text]) => text === question);
    if (!found) return;
    const [name, other] = [captures?.names.at(-1) ?? "run", captures?.names.at(-2) ?? "other"].map(quoted);
    set(found[1](name, other));
    ask();
  }, { "": "Examples by question…" });
  examples.setAttribute("aria-label", "Examples by question");
  main.append(
    etq.element("div", { class: "asking" }, etq.element("div", { class: "written" }, host, etq.element("div", { class: "bar" }, run, stop, examples, etq.element("span", { class: "muted hint", text: "Ctrl+Enter runs it. One SELECT, which reads the warehouse alone." }))), docs),
    output,
  );
  let [captures, schema, stopped] = [null, [], null];
  const objects = new Map();

  const editor = editorIn(host, { objects, captures: () => captures, run: () => ask(), moved: (word) => objects.has(word) && document_(objects.get(word)) });
  const set = (text) => editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });

  function document_(object) {
    docs.dataset.of = object.name;
    const list = (title, rows) => (rows.length ? [etq.element("h4", { text: title }), etq.element("dl", {}, ...rows.flatMap(([name, type, text]) => [etq.element("dt", {}, etq.element("code", { text: name }), etq.element("span", { class: "muted", text: type ? ` ${type}` : "" })), etq.element("dd", { text })]))] : []);
    docs.replaceChildren(back(), etq.element("h3", {}, etq.element("code", { text: object.name }), etq.element("span", { class: "muted", text: ` ${object.kind}` })), etq.element("p", { text: object.text }),
      etq.element("button", { type: "button", text: "Use it", onclick: () => { set(callOf(object, captures)); editor.focus(); } }),
      ...list("Parameters", object.parameters.map(([name, value, text]) => [name, value === null ? "" : `:= ${value}`, text])), ...list("Columns", object.columns));
  }

  const back = () => etq.element("button", { type: "button", class: "quiet", text: "All views", onclick: () => listViews() });
  function listViews() {
    delete docs.dataset.of;
    const search = etq.element("input", { type: "search", placeholder: "Search tables and views", "aria-label": "Search tables and views" });
    const list = etq.element("ul", { class: "values views" });
    const draw = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      list.replaceChildren(...schema.filter((each) => words.every((word) => `${each.name} ${each.text}`.toLowerCase().includes(word))).map((each) =>
        etq.element("li", {}, etq.element("button", { type: "button", "data-view": each.name, title: etq.short(each.text, 300), onclick: () => document_(each) }, etq.element("code", { text: each.name }), etq.element("span", { class: "muted", text: ` ${each.kind}` })))));
    };
    search.addEventListener("input", draw);
    draw();
    docs.replaceChildren(search, list);
  }

  async function ask() {
    const query = editor.state.doc.toString().trim();
    if (!query) return;
    etq.setParameters({ query, ...(etq.parameters().query === query ? {} : { chart: "" }) });
    await show(query);
  }

  async function show(query) {
    stopped?.abort();
    const mine = new AbortController();
    stopped = mine;
    stop.hidden = false;
    output.replaceChildren();
    await etq.work("Running the query…", async (signal) => {
      signal.addEventListener("abort", () => mine.abort());
      const result = await etq.ask("sql", { query }, mine.signal);
      etq.results(output, result, query, { chart: etq.parameters().chart, setChart: (chart) => etq.setParameters({ chart }, { replace: true }) });
    });
    if (stopped !== mine) return;
    stop.hidden = true;
    if (mine.signal.aborted) {
      etq.state("Stopped.");
      document.documentElement.dataset.ready = "yes";
    }
  }

  // The page's state from its link: for a new visit, and after steps back and forward.
  async function follow() {
    const { query } = etq.parameters();
    set(query ?? "");
    output.replaceChildren();
    if (query) await show(query);
    else document.documentElement.dataset.ready = "yes";
  }

  etq.onStep(follow);
  const known = etq.ask("schema").then((found) => {
    schema = found.toSorted((one, other) => placeOf(one) - placeOf(other));
    for (const each of found) objects.set(each.name, each);
    listViews();
  }).catch((error) => docs.replaceChildren(etq.element("p", { class: "missing", text: error.message })));
  const named = etq.captures().then((found) => {
    captures = found;
    if (!found.length) return;
    const isTrace = found.table.get(found.length - 1, "format") === "torch_trace";
    editor.suggest(`FROM ${isTrace ? "key_averages" : "op_totals"}(${quoted(etq.printable(found.names.at(-1)))}) LIMIT 20`);
  }).catch(() => {}); // only suggestions
  await follow();
  await Promise.all([known, named]);
  if (!etq.parameters().query) editor.focus();
};

function callOf(object, captures) {
  if (object.kind === "scalar macro") return `SELECT ${object.name}(${object.parameters.map(([name]) => name).join(", ")})`;
  if (object.kind !== "table macro") return `FROM ${object.name} LIMIT 100`;
  const needed = object.parameters.filter(([, value]) => value === null).map(([name]) => (["capture", "base", "new"].includes(name) && captures?.length ? quoted(captures.names.at(name === "base" ? -2 : -1) ?? captures.names[0]) : quoted(name)));
  return `FROM ${object.name}(${needed.join(", ")}) LIMIT 100`;
}

// The editor has its own shadow root, so that its styles need no exception from the page's policy.
function editorIn(host, { objects, captures, run, moved }) {
  const { EditorView, EditorState, keymap, lineNumbers, drawSelection, highlightSpecialChars, placeholder, Compartment, history, historyKeymap, defaultKeymap, syntaxHighlighting, HighlightStyle, bracketMatching, autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap, sql, SQLDialect, PostgreSQL, tags } = CodeMirror;
  const shadow = host.attachShadow({ mode: "open" });
  const colours = HighlightStyle.define([
    { tag: tags.keyword, color: "var(--accent)" }, { tag: [tags.string, tags.special(tags.string)], color: "var(--delegate)" },
    { tag: [tags.number, tags.bool, tags.null], color: "var(--control)" }, { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  ]);
  const theme = EditorView.theme({
    "&": { color: "var(--text)", backgroundColor: "var(--panel)", border: "1px solid var(--line)", borderRadius: "4px", fontSize: "14px" },
    "&.cm-focused": { outline: "2px solid var(--accent)" },
    ".cm-content": { fontFamily: "ui-monospace, monospace", minHeight: "13rem", caretColor: "var(--text)" },
    ".cm-scroller": { maxHeight: "50vh", overflow: "auto" },
    ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--muted)", border: "0" },
    ".cm-cursor": { borderLeftColor: "var(--text)" },
    "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--faint)" },
    ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--faint)" },
    ".cm-placeholder": { color: "var(--muted)" },
    ".cm-tooltip": { backgroundColor: "var(--back)", color: "var(--text)", border: "1px solid var(--line)" },
    ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-span)" },
    ".cm-completionDetail": { color: "inherit", opacity: "0.75" },
    ".cm-completionInfo": { maxWidth: "26rem", whiteSpace: "pre-wrap" },
  });
  const dialect = SQLDialect.define({ ...PostgreSQL.spec, doubleDollarQuotedStrings: true });

  function completions(context) {
    const text = context.state.sliceDoc(0, context.pos);
    // Within quotation marks: the name of a capture.
    const inText = /'([^']*)$/.exec(text.slice(text.lastIndexOf("\n") + 1));
    if (inText && (text.match(/'/g)?.length ?? 0) % 2) {
      const found = captures();
      return found && { from: context.pos - inText[1].length, options: found.names.slice(-5000).reverse().map((label) => ({ label, apply: label.replaceAll("'", "''"), type: "constant" })), validFor: /^[^']*$/ };
    }
    const word = context.matchBefore(/\w+/);
    if (!word && !context.explicit) return null;
    const whole = context.state.doc.toString();
    const options = [];
    const columns = new Map();
    for (const object of objects.values()) {
      const isCall = object.kind.endsWith("macro");
      options.push({ label: object.name, type: isCall ? "function" : "type", detail: object.kind, info: object.text, apply: isCall ? `${object.name}(` : object.name, boost: 1 });
      if (new RegExp(`\\b${object.name}\\b`).test(whole)) for (const [name, type, info] of object.columns) columns.set(name, { label: name, type: "property", detail: type || object.name, info, boost: 2 });
      const call = new RegExp(`\\b${object.name}\\([^()]*$`).exec(text);
      if (call) for (const [name, value, info] of object.parameters) columns.set(`${name} :=`, { label: name, apply: `${name} := `, type: "variable", detail: value === null ? "parameter" : `:= ${value}`, info, boost: 3 });
    }
    return { from: word ? word.from : context.pos, options: [...columns.values(), ...options], validFor: /^\w*$/ };
  }

  const hint = new Compartment();
  const language = sql({ dialect, upperCaseKeywords: true });
  const view = new EditorView({
    parent: shadow,
    root: shadow,
    state: EditorState.create({
      doc: "",
      extensions: [
        keymap.of([{ key: "Mod-Enter", run: () => { run(); return true; } }]),
        lineNumbers(), highlightSpecialChars(), history(), drawSelection(), bracketMatching(), closeBrackets(), syntaxHighlighting(colours), theme, language,
        dialect.language.data.of({ autocomplete: completions }), autocompletion(),
        hint.of(placeholder("FROM captures LIMIT 20")), EditorView.lineWrapping,
        // Tab leaves the editor, as in any other field.
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.contentAttributes.of({ "aria-label": "SQL query" }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged && !update.selectionSet) return;
          const at = update.state.wordAt(update.state.selection.main.head);
          if (at) moved(update.state.sliceDoc(at.from, at.to));
        }),
      ],
    }),
  });
  host.editor = view;
  // The placeholder of an empty editor can be run as it is.
  view.suggest = (text) => view.dispatch({ effects: hint.reconfigure(placeholder(text)) });
  return view;
}
