"use strict";
// What the page knows: the latest sample, and what came before it, as far as charts show it.

const SCHEMA = 1;
const HISTORY_MS = 120_000;

const model = {
  sample: null,
  /** Open connections by id, with their goodput and their points; the selected one stays when it has closed. */
  flows: new Map(),
  /** Radio links by slot. */
  links: new Map(),
  goodput_bps: null,
};

const flowId = (c) => `${c.netns} ${c.local} ${c.peer}`;

/** Appends a point to a history, and removes those that charts no longer show. */
function append(points, point) {
  points.push(point);
  const first = points.findIndex((p) => p.time >= point.time - HISTORY_MS);
  points.splice(0, first);
}

/** Adds what is known of two values; `null` is not known. */
const plus = (a, b) => (b === null ? a : (a ?? 0) + b);

/** Takes over a sample. Returns whether it is a new one. */
function take(sample, keep) {
  const seconds = model.sample ? (sample.time_ms - model.sample.time_ms) / 1000 : 0;
  if (model.sample && seconds === 0) return false;
  if (seconds < 0) [model.flows, model.links] = [new Map(), new Map()]; // the machine has started again
  const rate = (now, before) => (seconds > 0 && before !== undefined && now >= before ? (now - before) / seconds : null);
  const time = sample.time_ms;
  if (sample.connections) {
    const before = model.flows;
    model.flows = new Map();
    model.goodput_bps = null;
    for (const c of sample.connections.first) {
      const id = flowId(c);
      const known = before.get(id);
      // fewer bytes than before: another connection with the same addresses
      const same = known && !known.closed && c.acked_bytes >= known.acked_bytes ? known : undefined;
      const bytes = rate(c.acked_bytes, same?.acked_bytes);
      const flow = { ...c, id, goodput_bps: bytes === null ? null : bytes * 8, points: same?.points ?? [], closed: false };
      append(flow.points, {
        time,
        goodput: flow.goodput_bps === null ? null : flow.goodput_bps / 1e6,
        rtt: c.srtt_us === null ? null : c.srtt_us / 1e3,
        least: c.min_rtt_us === null ? null : c.min_rtt_us / 1e3,
        window: c.cwnd,
        threshold: c.ssthresh,
        sinr: c.sinr_db,
      });
      model.goodput_bps = plus(model.goodput_bps, flow.goodput_bps);
      model.flows.set(id, flow);
    }
    const kept = before.get(keep);
    if (kept && !model.flows.has(keep)) model.flows.set(keep, { ...kept, closed: true });
  }
  if (sample.links) takeLinks(sample.links.first, time, rate);
  model.sample = sample;
  return true;
}

function takeLinks(links, time, rate) {
  const before = model.links;
  model.links = new Map();
  for (const l of links) {
    const known = before.get(l.slot);
    const same = known && known.peers === l.peers ? known : undefined;
    const link = { ...l, readings_per_s: rate(l.updates, same?.updates), goodput_bps: null, connections: 0, points: same?.points ?? [] };
    model.links.set(l.slot, link);
  }
  for (const flow of model.flows.values()) {
    const link = model.links.get(flow.slot);
    if (!link || flow.closed) continue;
    link.connections += 1;
    link.goodput_bps = plus(link.goodput_bps, flow.goodput_bps);
  }
  for (const link of model.links.values()) {
    const sinr = link.state === "fresh" ? link.sinr_db : null;
    append(link.points, { time, sinr, goodput: link.goodput_bps === null ? null : link.goodput_bps / 1e6 });
  }
}

const COLUMNS = [
  { key: "peer", title: "Peer", of: (f) => f.peer },
  { key: "local", title: "Local", of: (f) => f.local },
  { key: "cc", title: "Algorithm", of: (f) => f.cc },
  { key: "state", title: "State", of: (f) => f.ca_state },
  { key: "goodput", title: "Goodput Mbit/s", of: (f) => f.goodput_bps, number: true },
  { key: "rtt", title: "RTT ms", of: (f) => f.srtt_us, number: true },
  { key: "window", title: "Window", of: (f) => f.cwnd, number: true },
  { key: "retransmits", title: "Retransmits", of: (f) => f.retransmits, number: true },
  { key: "sinr", title: "SINR dB", of: (f) => f.sinr_db, number: true },
];

const natural = new Intl.Collator("en", { numeric: true });

/** Returns the open connections that the filter leaves, sorted; values that are not known come last. */
function arranged(filter, sort) {
  const wanted = filter.trim().toLowerCase();
  const column = COLUMNS.find((c) => c.key === sort.key);
  const sign = sort.descending ? -1 : 1;
  const matches = (f) => `${f.netns} ${f.local} ${f.peer} ${f.cc} ${f.ca_state}`.toLowerCase().includes(wanted);
  const found = [...model.flows.values()].filter((f) => !f.closed && (wanted === "" || matches(f)));
  const compare = (a, b) => {
    const [x, y] = [column.of(a), column.of(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (column.number ? x - y : natural.compare(x, y));
  };
  return found.sort((a, b) => compare(a, b) || (a.id < b.id ? -1 : 1));
}
