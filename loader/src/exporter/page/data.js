"use strict";
// What the page knows: the latest sample, and what came before it, as far as charts show it.

const SCHEMA = 1;
const HISTORY_MS = 120_000;
/** Why a connection is gone from the list. */
const CLOSED = "closed";
const UNLISTED = "not among the fastest";

const model = {
  sample: null,
  /** Open connections by id, with their goodput and their points; the selected one stays when it is `gone`. */
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

/** Returns how fast a count grew since `before`, per second; that may be several samples ago. `null` if not known. */
function rate(key, now, before) {
  return before && now[key] >= before[key] ? (1000 * (now[key] - before[key])) / (now.time - before.time) : null;
}

/** Takes over a sample. Returns whether it is a new one. */
function take(sample, keep) {
  const time = sample.time_ms;
  if (time === model.sample?.time_ms) return false;
  // if the machine has started again
  if (time < model.sample?.time_ms) [model.flows, model.links] = [new Map(), new Map()];
  if (sample.connections) takeFlows(sample.connections, time, keep);
  if (sample.links) takeLinks(sample.links.first, time);
  model.sample = sample;
  return true;
}

function takeFlows({ total, first }, time, keep) {
  const before = model.flows;
  model.flows = new Map();
  model.goodput_bps = null;
  for (const c of first) {
    const id = flowId(c);
    const known = before.get(id);
    // fewer bytes than before: another connection with the same addresses
    const same = known && known.gone !== CLOSED && c.acked_bytes >= known.acked_bytes ? known : undefined;
    const flow = { ...c, id, time, goodput_bps: null, points: same?.points ?? [], gone: null };
    const bytes = rate("acked_bytes", flow, same);
    if (bytes !== null) flow.goodput_bps = bytes * 8;
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
  if (!kept || model.flows.has(keep)) return;
  // if only the fastest are listed, one that is not may still be open
  const gone = total > first.length && kept.gone !== CLOSED ? UNLISTED : CLOSED;
  model.flows.set(keep, { ...kept, gone });
}

function takeLinks(links, time) {
  const before = model.links;
  model.links = new Map();
  for (const l of links) {
    const known = before.get(l.slot);
    const same = known && known.peers === l.peers ? known : undefined;
    const link = { ...l, time, readings_per_s: null, goodput_bps: null, connections: 0, points: same?.points ?? [] };
    link.readings_per_s = rate("updates", link, same);
    model.links.set(l.slot, link);
  }
  for (const flow of model.flows.values()) {
    const link = model.links.get(flow.slot);
    if (!link || flow.time !== time) continue; // what is known of it is from before
    link.connections += 1;
    link.goodput_bps = plus(link.goodput_bps, flow.goodput_bps);
  }
  for (const link of model.links.values()) {
    append(link.points, { time, sinr: link.sinr_db, goodput: link.goodput_bps === null ? null : link.goodput_bps / 1e6 });
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
  const found = [...model.flows.values()].filter((f) => !f.gone && (wanted === "" || matches(f)));
  const compare = (a, b) => {
    const [x, y] = [column.of(a), column.of(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (column.number ? x - y : natural.compare(x, y));
  };
  return found.sort((a, b) => compare(a, b) || (a.id < b.id ? -1 : 1));
}
