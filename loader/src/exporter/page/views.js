// The parts of the page. Texts from the kernel are only ever set as text.

const PAGE_ROWS = 100;
const at = (id) => document.getElementById(id);

const view = {
  filter: "",
  sort: { key: "goodput", descending: true },
  rows: PAGE_ROWS,
  /** Ids of the connections in the table's order, all that the filter leaves. */
  order: [],
  flow: null,
  link: null,
};

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows a note in place of a table that has no rows. */
function note(id, text) {
  at(id).hidden = text === "";
  put(at(id), text);
}

/**
 * Fills a table, and changes only what differs. A row is {id, current, cells}; a cell is a text, or {text, kind, button}.
 */
function fill(body, rows) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((row, i) => {
    const line = body.rows[i] ?? body.insertRow();
    line.dataset.id = row.id ?? "";
    if (row.current) line.setAttribute("aria-current", "true");
    else line.removeAttribute("aria-current");
    row.cells.forEach((given, j) => {
      const cell = typeof given === "object" ? given : { text: given };
      let place = line.cells[j] ?? line.insertCell();
      const kind = cell.kind ?? "";
      if (place.className !== kind) place.className = kind;
      if (cell.button) {
        if (!place.firstElementChild) place.append(Object.assign(document.createElement("button"), { type: "button" }));
        place = place.firstElementChild;
      }
      put(place, cell.text);
      if (place.title !== (cell.title ?? "")) place.title = cell.title ?? "";
    });
  });
}

const n = (text, kind = "") => ({ text, kind: `n ${kind}`.trim() });
const long = (text) => ({ text, title: text });
const whole = (value) => number(value, 0);
const mbps = (bps) => number(bps === null || bps === undefined ? null : bps / 1e6);
const ms = (us) => number(us === null || us === undefined ? null : us / 1e3);
const failure = (part) => (model.sample.errors[part] ? `Could not be read: ${model.sample.errors[part]}` : "");

/** Makes the headers of the connections' columns; a press sorts, a second one reverses. */
function makeColumns(changed) {
  for (const column of COLUMNS) {
    const head = document.createElement("th");
    const button = document.createElement("button");
    head.scope = "col";
    if (column.number) head.className = "n";
    button.type = "button";
    button.dataset.key = column.key;
    button.textContent = column.title;
    button.addEventListener("click", () => {
      const again = view.sort.key === column.key;
      view.sort = { key: column.key, descending: again ? !view.sort.descending : Boolean(column.number) };
      changed();
    });
    head.append(button);
    at("columns").append(head);
  }
}

const CA_KINDS = { recovery: "warn", loss: "bad" };

function drawFlows() {
  COLUMNS.forEach((column, i) => {
    const head = at("columns").children[i];
    if (column.key !== view.sort.key) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", view.sort.descending ? "descending" : "ascending");
  });
  const flows = model.sample.connections ? arranged(view.filter, view.sort) : [];
  view.order = flows.map((f) => f.id);
  if (view.flow === null && flows[0]?.goodput_bps) view.flow = flows[0].id;
  const rows = flows.slice(0, view.rows).map((f) => ({
    id: f.id,
    current: f.id === view.flow,
    cells: [
      long(f.peer), long(f.local), { text: f.cc, title: f.version }, { text: f.ca_state, kind: CA_KINDS[f.ca_state] }, n(mbps(f.goodput_bps)),
      n(ms(f.srtt_us)), n(whole(f.cwnd)), n(whole(f.retransmits)), n(number(f.sinr_db)),
    ],
  }));
  fill(at("flows"), rows);
  const total = model.sample.connections?.total;
  const known = model.sample.connections?.first.length ?? 0;
  const all = known < total ? `the fastest ${whole(known)} of ${whole(total)}` : whole(total);
  put(at("count"), flows.length === known ? all : `${whole(flows.length)} of ${all}`);
  const none = view.filter.trim() === "" ? "No open TCP connections." : "No connection matches the filter.";
  note("no-flows", failure("connections") || (flows.length ? "" : none));
  at("more").hidden = flows.length <= view.rows;
  put(at("more"), `Show more: ${whole(Math.min(PAGE_ROWS, flows.length - view.rows))} of ${whole(flows.length - view.rows)}`);
}

let charts = null;

function drawDetails() {
  const flow = model.flows.get(view.flow);
  note("no-details", flow ? "" : "Select a connection: arrow keys, or a click.");
  at("details-body").hidden = !flow;
  if (!flow) return;
  const place = at("charts");
  charts ??= {
    goodput: figure(place, "Goodput", "Mbit/s"),
    rtt: figure(place, "RTT", "ms", "minimum"),
    window: figure(place, "Window", "segments", "slow start threshold"),
    sinr: figure(place, "SINR", "dB"),
  };
  put(at("details-name"), `${flow.local} → ${flow.peer}`);
  const facts = [flow.gone ?? flow.ca_state, `${flow.cc} (${flow.version})`, `namespace ${flow.netns}`];
  facts.push(`${number(flow.acked_bytes / 1e6)} MB acknowledged`, `${whole(flow.retransmits)} retransmitted`);
  if (flow.pep) facts.push(`PEP report ${whole(flow.pep.age_ms)} ms old, PEP at ${ms(flow.pep.rtt_us)} ms`);
  put(at("details-state"), facts.join(" · "));
  drawLines(charts.goodput, flow.points, ["goodput"]);
  drawLines(charts.rtt, flow.points, ["rtt", "least"]);
  drawLines(charts.window, flow.points, ["window", "threshold"], { digits: 0 });
  drawLines(charts.sinr, flow.points, ["sinr"]);
}

const LINK_KINDS = { fresh: "good", stale: "bad", never: "warn" };

function drawLinks() {
  const links = model.sample.links ? [...model.links.values()] : [];
  if (!model.links.has(view.link)) view.link = links.length ? links[0].slot : null;
  const rows = links.map((l) => ({
    id: l.slot,
    current: l.slot === view.link,
    cells: [
      { ...long(l.peers), button: true }, { text: l.state, kind: LINK_KINDS[l.state] }, n(number(l.sinr_db)), n(number(l.average_db)),
      n(whole(l.age_ms)), n(number(l.readings_per_s)), n(mbps(l.capacity_bps)), n(mbps(l.goodput_bps)),
      l.feeder === null ? { text: `${l.source}, gone`, kind: "bad" } : `${l.source}, process ${l.feeder}`,
    ],
  }));
  fill(at("link-rows"), rows);
  at("links-table").hidden = !rows.length;
  note("no-links", failure("links") || (rows.length ? "" : "No radio links. sinr-feeder makes them."));
  const total = model.sample.links?.total ?? 0;
  put(at("links-count"), rows.length < total ? `${whole(rows.length)} of ${whole(total)}` : "");
}

let signal = null;

function drawSignal() {
  const link = model.sample.links ? model.links.get(view.link) : undefined;
  note("no-signal", failure("links") || (link ? "" : "No radio link to show."));
  at("signal-body").hidden = !link;
  if (!link) return;
  if (!signal) {
    signal = figure(at("signal-charts"), "Goodput against SINR", "Mbit/s");
    signal.svg.classList.add("large");
  }
  const connections = model.sample.connections ? link.connections : null;
  put(at("signal-name"), `${link.peers}: ${whole(connections)} connection${connections === 1 ? "" : "s"}`);
  drawScatter(signal, link.points);
}

function drawAlgorithms() {
  const algorithms = model.sample.algorithms ?? [];
  const since = (s) => (s === null ? "–" : new Date(s * 1000).toLocaleString("sv-SE"));
  const goodput = new Map();
  for (const f of model.flows.values()) if (f.time === model.sample.time_ms) goodput.set(f.cc, plus(goodput.get(f.cc) ?? null, f.goodput_bps));
  const rows = algorithms.map((a) => ({
    cells: [
      a.name, n(whole(a.connections)), n(a.object === null ? "–" : whole(a.older), a.older ? "warn" : ""), n(mbps(goodput.get(a.name))),
      n(whole(a.swaps)), a.object === null ? { text: "not loaded by hotcc", kind: "dim" } : long(`${a.object} (${a.profile})`),
      since(a.since_unix_s),
    ],
  }));
  fill(at("algorithm-rows"), rows);
  at("algorithms-table").hidden = !rows.length;
  note("no-algorithms", failure("algorithms") || (rows.length ? "" : "No algorithm is loaded or in use. hotcc load loads one."));
}

/** Returns the median, and the 95th percentile if wanted, of a distribution over ended connections. */
function percentiles(of, scale, both) {
  if (!of) return "–";
  return both ? `${number(of.p50 * scale)}, ${number(of.p95 * scale)}` : number(of.p50 * scale);
}

function drawRules() {
  const rules = model.sample.rules ?? [];
  const value = (v) => (typeof v === "string" ? v : JSON.stringify(v));
  const conditions = (keys) =>
    Object.entries(keys).filter(([key]) => key !== "congestion_control").map(([key, v]) => `${key} = ${value(v)}`).join(", ");
  const rows = rules.map((r) => {
    const missed = r.unavailable + r.refused;
    const ended = r.ended;
    const share = ended && ended.segments ? (100 * ended.retransmits) / ended.segments : null;
    return {
      cells: [
        n(String(r.rule)), conditions(r.keys) || "all connections",
        r.loaded ? r.congestion_control : { text: `${r.congestion_control}, not loaded`, kind: "bad" }, r.cohort ?? "–",
        n(whole(r.connections)), n(whole(missed), missed ? "warn" : ""), n(whole(ended?.connections)),
        n(percentiles(ended?.rtt_us, 1e-3, true)), n(percentiles(ended?.goodput_kbps, 1e-3)), n(number(share, 2)),
      ],
    };
  });
  fill(at("rule-rows"), rows);
  at("rules-table").hidden = !rows.length;
  note("no-rules", failure("rules") || (rows.length ? "" : "No policy rules apply. hotcc apply installs those of hotcc.toml."));
}

/** Fills a list of facts: pairs of a name and a text. */
function facts(id, pairs) {
  const list = at(id);
  while (list.children.length > 2 * pairs.length) list.lastElementChild.remove();
  pairs.flat().forEach((text, i) => {
    if (!list.children[i]) list.append(document.createElement(i % 2 ? "dd" : "dt"));
    put(list.children[i], text);
  });
}

function drawCanary() {
  const c = model.sample.canary;
  const some = c && c.state !== "none";
  note("no-canary", failure("canary") || (some ? "" : "No canary since this machine started. hotcc canary start begins one."));
  const pairs = some ? [
    ["Canary", c.state.replace("_", " ")],
    ["Change", `${c.from} → ${c.to}`],
    ["Step", `${c.step} of ${c.steps}, ${number(c.share_percent)} % of new connections`],
    ["Ended", `${whole(c.connections.canary)} canary, ${whole(c.connections.control)} control`],
    ["Not compared", whole(c.dropped_records)],
  ] : [];
  if (some && c.expires_in_s !== null) pairs.push(["Expires in", `${whole(c.expires_in_s)} s, unless renewed`]);
  facts("canary-facts", pairs);
  const pep = model.sample.pep;
  note("no-pep", failure("pep") || (pep?.connections ? "" : "No open connection has reports of a border PEP."));
  facts("pep-facts", pep?.connections ? [
    ["PEP reports", `on ${whole(pep.connections)} connection${pep.connections === 1 ? "" : "s"}`],
    ["Newest report", `${whole(pep.newest_ms)} ms old`],
    ["RTT to the PEP", pep.least_rtt_us === null ? "not known" : `${ms(pep.least_rtt_us)} to ${ms(pep.largest_rtt_us)} ms`],
  ] : []);
}

function drawTiles() {
  const s = model.sample;
  put(at("tile-connections"), whole(s.connections?.total));
  const { total = 0, first = [] } = s.connections ?? {};
  put(at("tile-goodput-of"), total > first.length ? "Goodput of those shown, Mbit/s" : "Goodput, Mbit/s");
  put(at("tile-goodput"), mbps(s.connections ? model.goodput_bps : null));
  const some = total > first.length ? "Goodput of those shown, Mbit/s" : "Goodput Mbit/s";
  for (const id of ["links-goodput", "algorithms-goodput"]) put(at(id), some);
  const fresh = [...model.links.values()].filter((l) => l.state === "fresh").length;
  put(at("tile-links"), s.links ? `${whole(fresh)} of ${whole(s.links.total)}` : "–");
  put(at("tile-pep"), whole(s.pep?.connections));
  put(at("tile-canary"), s.canary ? s.canary.state.replace("_", " ") : "–");
  put(at("version"), `hotcc ${s.version}`);
}

function drawAll() {
  if (!model.sample) return;
  drawTiles();
  drawFlows();
  drawDetails();
  drawLinks();
  drawSignal();
  drawAlgorithms();
  drawCanary();
  drawRules();
}
