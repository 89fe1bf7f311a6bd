// Charts. A chart is redrawn whole; its size is that of its place on the page.

const SVG = "http://www.w3.org/2000/svg";

function shape(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function number(value, digits = 1) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Rounds outwards to 1, 2 or 5 times a power of ten. */
function step(span) {
  const power = 10 ** Math.floor(Math.log10(span));
  return power * [1, 2, 5, 10].find((n) => n * power >= span * 0.999);
}

/** Returns limits for an axis that shows these values, from 0 unless some are negative or `tight`. */
function limits(values, tight) {
  if (values.length === 0) return [0, 1];
  let low = values.reduce((a, b) => Math.min(a, b));
  let high = values.reduce((a, b) => Math.max(a, b));
  if (!tight) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  const unit = step(Math.max((high - low) / 4, 0.25));
  low = Math.floor(low / unit) * unit;
  high = Math.ceil(high / unit) * unit;
  return low === high ? [low, low + unit] : [low, high];
}

const axisText = (value) => String(Number(value.toFixed(2)));

/** Makes a figure with a title, the latest value, and an empty chart. */
function figure(place, title, unit, other) {
  const root = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const value = document.createElement("b");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("role", "img");
  caption.append(unit ? `${title}, ${unit}` : title);
  if (other) {
    const second = document.createElement("span");
    second.className = "second";
    second.textContent = `┄ ${other}`;
    caption.append(second);
  }
  caption.append(value);
  root.append(caption, svg);
  place.append(root);
  return { svg, value, title: `${title} ${unit}` };
}

/** Draws one or two series over the last two minutes. A gap in time, or an unknown value, is a gap in the line. */
function drawLines(chart, points, keys, { digits = 1 } = {}) {
  const { svg } = chart;
  const [width, height, left, bottom] = [svg.clientWidth || 370, svg.clientHeight || 78, 44, 4];
  const all = keys.flatMap((key) => points.map((p) => p[key]).filter((v) => v !== null));
  const latest = points.length ? points[points.length - 1][keys[0]] : null;
  chart.value.textContent = number(latest, digits);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const main = points.map((p) => p[keys[0]]).filter((v) => v !== null);
  const range = main.length ? `${number(Math.min(...main), digits)} to ${number(Math.max(...main), digits)} in two minutes` : "no values";
  svg.setAttribute("aria-label", `${chart.title}: now ${number(latest, digits)}, ${range}`);
  const [low, high] = limits(all);
  const end = points.length ? points[points.length - 1].time : 0;
  const x = (time) => width - 3 - ((end - time) / HISTORY_MS) * (width - left - 3);
  const y = (value) => height - bottom - ((value - low) / (high - low)) * (height - bottom - 8);
  for (const value of all.length ? [low, high] : [low]) {
    shape(svg, "line", { class: "grid", x1: left, x2: width, y1: y(value), y2: y(value) });
    if (all.length) shape(svg, "text", { x: left - 6, y: y(value) + (value === low ? 0 : 6), "text-anchor": "end" }, axisText(value));
  }
  keys.forEach((key, i) => {
    for (const run of runs(points, key)) {
      const path = run.map((p) => `${x(p.time).toFixed(1)},${y(p[key]).toFixed(1)}`);
      if (i === 0 && run.length > 1) {
        const foot = y(Math.max(low, 0)).toFixed(1);
        const corners = [`${x(run[0].time).toFixed(1)},${foot}`, ...path, `${x(run[run.length - 1].time).toFixed(1)},${foot}`];
        shape(svg, "polygon", { class: "area", points: corners.join(" ") });
      }
      if (run.length > 1) shape(svg, "polyline", { class: i ? "series other" : "series", points: path.join(" ") });
      else shape(svg, "circle", { class: "dot", cx: x(run[0].time), cy: y(run[0][key]), r: 1.5 });
    }
  });
}

/** Splits points into runs without gaps. */
function runs(points, key) {
  const found = [];
  let run = [];
  const gap = 3 * Math.max(model.sample?.period_ms ?? 0, 1000);
  for (const point of points) {
    const far = run.length && point.time - run[run.length - 1].time > gap;
    if ((point[key] === null || far) && run.length) {
      found.push(run);
      run = [];
    }
    if (point[key] !== null) run.push(point);
  }
  if (run.length) found.push(run);
  return found;
}

/** Draws goodput against SINR, older points fainter, the latest one marked. */
function drawScatter(chart, points) {
  const { svg } = chart;
  const [width, height, left, foot] = [svg.clientWidth || 370, svg.clientHeight || 200, 44, 30];
  const known = points.filter((p) => p.sinr !== null && p.goodput !== null);
  // a reading that is too old is not the latest
  const newest = points[points.length - 1];
  const last = known[known.length - 1] === newest ? newest : undefined;
  chart.value.textContent = last ? `${number(last.goodput)} at ${number(last.sinr)} dB` : "–";
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", `${chart.title}: ${known.length} points, now ${chart.value.textContent}`);
  const [x0, x1] = limits(known.map((p) => p.sinr), true);
  const [y0, y1] = limits(known.map((p) => p.goodput));
  const x = (value) => left + 6 + ((value - x0) / (x1 - x0)) * (width - left - 16);
  const y = (value) => height - foot - ((value - y0) / (y1 - y0)) * (height - foot - 10);
  for (const share of [0, 0.5, 1]) {
    const [gx, gy] = [x0 + share * (x1 - x0), y0 + share * (y1 - y0)];
    shape(svg, "line", { class: "grid", x1: left, x2: width, y1: y(gy), y2: y(gy) });
    shape(svg, "line", { class: "grid", x1: x(gx), x2: x(gx), y1: 8, y2: height - foot });
    if (!known.length) continue;
    shape(svg, "text", { x: left - 6, y: y(gy) + 4, "text-anchor": "end" }, axisText(gy));
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    shape(svg, "text", { x: x(gx), y: height - foot + 14, "text-anchor": anchor }, axisText(gx));
  }
  shape(svg, "text", { x: width / 2, y: height - 3, "text-anchor": "middle" }, known.length ? "SINR, dB" : "no values yet");
  known.forEach((p, i) => {
    const opacity = 0.15 + 0.6 * ((i + 1) / known.length);
    shape(svg, "circle", { class: "dot", cx: x(p.sinr), cy: y(p.goodput), r: 3, opacity });
  });
  if (last) shape(svg, "circle", { class: "dot last", cx: x(last.sinr), cy: y(last.goodput), r: 5 });
}
