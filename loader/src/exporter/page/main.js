// Polls the exporter, and answers to keys and buttons.

const LONGEST_WAIT_MS = 5_000;
const PATIENCE_MS = 20_000;

let paused = false;
let failures = 0;
let lostAt = null;
let timer = null;
let asking = false;

const TRIES = " The page keeps trying.";

const clock = () => new Date().toLocaleString("sv-SE");

function say(state, text) {
  at("status").dataset.state = state;
  put(at("status"), text);
}

function alarm(text) {
  at("alert").hidden = text === "";
  put(at("alert"), text);
}

function connected(sample) {
  failures = 0;
  lostAt = null;
  alarm("");
  const every = `every ${number(sample.period_ms / 1000, sample.period_ms % 1000 ? 1 : 0)} s`;
  if (!paused) say("live", `Live, ${every}`);
}

function lost(error) {
  failures += 1;
  lostAt ??= clock();
  const stale = model.sample ? " The figures below are from before." : "";
  say("lost", "Not connected");
  alarm(`Not connected since ${lostAt}: ${error.message}.${stale}${TRIES}`);
}

async function poll() {
  if (asking || paused || document.hidden) return;
  asking = true;
  clearTimeout(timer);
  let wait = LONGEST_WAIT_MS;
  try {
    const answer = await fetch("live.json", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
    const sample = await answer.json();
    if (sample.schema !== SCHEMA) throw new Error("the exporter has another version; reload this page");
    connected(sample);
    if (!paused && take(sample, view.flow)) drawAll();
    wait = sample.period_ms;
  } catch (error) {
    if (!paused) lost(error);
    wait = Math.min(LONGEST_WAIT_MS, 250 * 2 ** failures);
  }
  asking = false;
  timer = setTimeout(poll, wait);
}

function pause() {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  put(at("pause"), paused ? "Continue" : "Pause");
  if (paused) {
    say("paused", `Paused at ${clock()}`);
    alarm(at("alert").textContent.replace(TRIES, ""));
  }
  else say("wait", "Connecting");
  poll();
}

const THEMES = ["auto", "light", "dark"];

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  put(at("theme"), `Theme: ${name}`);
}

/** Returns the theme that was chosen before; the browser may block storage. */
function remembered() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

function nextTheme() {
  const now = document.documentElement.dataset.theme ?? "auto";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  theme(next);
  try {
    localStorage.setItem("theme", next);
  } catch {
    // it holds until the page is closed
  }
}

function select(id) {
  view.flow = id;
  drawAll();
  at("flows").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

/** Moves the selection; a row that is not in the table yet is added to it. */
function move(by) {
  if (!view.order.length) return;
  const place = view.order.indexOf(view.flow);
  const next = place < 0 ? 0 : Math.min(Math.max(place + by, 0), view.order.length - 1);
  view.rows = Math.max(view.rows, PAGE_ROWS * Math.ceil((next + 1) / PAGE_ROWS));
  select(view.order[next]);
}

function refilter(text) {
  view.filter = text;
  view.rows = PAGE_ROWS;
  drawAll();
}

const KEYS = {
  "/": () => at("filter").focus(),
  p: pause,
  t: nextTheme,
  "?": () => at("keys").showModal(),
  ArrowUp: () => move(-1),
  ArrowDown: () => move(1),
  Enter: () => at("details").focus(),
  Escape: () => at("details").blur(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || at("keys").open || !Object.hasOwn(KEYS, event.key)) return;
  if (event.target === at("filter")) {
    if (event.key === "Escape") {
      at("filter").value = "";
      refilter("");
    }
    if (event.key === "Escape" || event.key === "Enter" || event.key === "ArrowDown") at("filter").blur();
    else return;
  } else {
    // these press what has the focus
    if (event.key === "Enter" && event.target.closest("button, a")) return;
    // these scroll the other tables
    const region = event.target.closest(".scroll");
    if (event.key.startsWith("Arrow") && region && !at("connections").contains(region)) return;
    KEYS[event.key]();
  }
  event.preventDefault();
});

at("filter").addEventListener("input", (event) => refilter(event.target.value));
at("pause").addEventListener("click", pause);
at("theme").addEventListener("click", nextTheme);
at("help").addEventListener("click", () => at("keys").showModal());
at("close").addEventListener("click", () => at("keys").close());
at("more").addEventListener("click", () => {
  view.rows += PAGE_ROWS;
  drawAll();
});
at("flows").addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row) select(row.dataset.id);
});
at("link-rows").addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (!row) return;
  view.link = Number(row.dataset.id);
  drawAll();
});
document.addEventListener("visibilitychange", poll);
window.addEventListener("resize", drawAll);

document.title = `hotcc ${location.host}`;
makeColumns(drawAll);
theme(THEMES.includes(remembered()) ? remembered() : "auto");
poll();
