"use strict";
function begin() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { axes, cells, flags, limits, again } = data;
  const find = id => document.getElementById(id);
  const sizes = axes.map(axis => axis.values.length);
  const strides = sizes.map((_, at) => sizes.slice(at + 1).reduce((a, b) => a * b, 1));
  const repeated = axes.findIndex(axis => axis.repetition);
  const several = axes.map((axis, at) => at).filter(at => sizes[at] > 1 && at !== repeated);
  const state = { x: data.x, y: data.y, colour: "value", at: axes.map(() => 0), shown: new Set() };
  const DENSE = 20; // values of an axis beyond which cells have no numbers
  const WIDE = 8; // and up to which they have more room than their numbers take
  const GRADES = ["note", "warning", "invalid"];
  // Viridis, at equal steps: its lightness grows, for whatever eyes and in grey.
  const VIRIDIS = ["440154", "482878", "3e4a89", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"]
    .map(hex => [0, 2, 4].map(at => parseInt(hex.slice(at, at + 2), 16)));
  const top = cells.value.reduce((most, value) => value > most ? value : most, 0) || 1;

  // Whatever is shown of data is set as text, never as HTML.
  function make(name, about = {}, ...inside) {
    const SVG = ["svg", "line", "path", "rect", "text", "title"].includes(name);
    const element = SVG ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(about)) if (value !== null && value !== false) element.setAttribute(key, value);
    element.append(...inside.filter(one => one !== null && one !== undefined));
    return element;
  }
  const number = value => {
    if (value === null || value === undefined) return "";
    if (value === 0) return "0";
    const size = Math.abs(value);
    return size >= 1000 ? Math.round(value).toLocaleString("en") : value.toFixed(Math.max(0, size >= .1 ? 2 - Math.floor(Math.log10(size)) : 1 - Math.floor(Math.log10(size))));
  };
  const colour = share => {
    const place = Math.min(1, Math.max(0, share)) * (VIRIDIS.length - 1), low = Math.min(Math.floor(place), VIRIDIS.length - 2);
    return VIRIDIS[low].map((part, at) => Math.round(part + (VIRIDIS[low + 1][at] - part) * (place - low)));
  };
  const inkOn = ([red, green, blue]) => {
    const linear = part => (part /= 255) <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4;
    const light = .2126 * linear(red) + .7152 * linear(green) + .0722 * linear(blue);
    return light > .18 ? "#111" : "#fff";
  };
  const flagsOf = cell => flags.filter(flag => cells.flags[cell] & flag.mask);
  const worst = list => list.reduce((most, flag) => Math.max(most, GRADES.indexOf(flag.grade)), -1);
  const coordinates = cell => axes.map((_, at) => Math.floor(cell / strides[at]) % sizes[at]);
  const flat = at => at.reduce((sum, place, axis) => sum + place * strides[axis], 0);
  const exists = cell => !again || again.cell[cell] !== "" || cells.status[cell] > 0;

  /** A point of the map: its repetitions as one. */
  function pointAt(at) {
    const count = repeated < 0 ? 1 : sizes[repeated], first = at.slice();
    if (repeated >= 0) first[repeated] = 0;
    const start = flat(first), step = repeated < 0 ? 1 : strides[repeated];
    const all = Array.from({ length: count }, (_, nth) => start + nth * step).filter(exists);
    const well = all.filter(cell => cells.value[cell] !== null);
    const mean = well.length ? well.reduce((sum, cell) => sum + cells.value[cell], 0) / well.length : null;
    const ends = (names, pick) => well.length ? pick(...well.map(cell => names[cell] ?? cells.value[cell])) : null;
    const list = flags.filter(flag => all.some(cell => cells.flags[cell] & flag.mask));
    const bound = [...new Set(well.map(cell => cells.limit[cell]))].filter(limit => limit >= 0);
    const failed = all.filter(cell => cells.status[cell] === 2).length;
    return { all, well, mean, low: ends(cells.low, Math.min), high: ends(cells.high, Math.max), list, bound, failed };
  }
  const placed = (x, y) => state.at.map((place, axis) => axis === state.x ? x : axis === state.y ? y : place);
  const named = (at, which = several) => which.map(axis => `${axes[axis].label} ${axes[axis].values[at[axis]]}`).join(", ");
  const interval = point => point.low === null || point.low === point.high ? "" : `${number(Math.max(0, point.low))} to ${number(point.high)}`;
  const lacking = point => point.failed ? "failed" : point.all.length ? "not measured" : "not asked for";

  function said(at, point) {
    const lines = [named(at)];
    lines.push(point.mean === null ? lacking(point) : `${number(point.mean)} Gbit/s${interval(point) ? ` (${interval(point)})` : ""}`);
    if (point.well.length > 1) lines.push(`mean of ${point.well.length} repetitions`);
    if (point.bound.length) lines.push(`bound by ${point.bound.map(limit => limits[limit][0]).join(", ")}`);
    const loud = point.list.map(flag => `${flag.grade}: ${flag.words}`);
    return [...lines, ...(loud.length ? loud : ["no flags"])].join("\n");
  }

  // ---- the map

  function select(label, options, value, change) {
    const box = make("select", {}, ...options.map(([key, text]) => make("option", { value: key, selected: key === value ? "" : null }, text)));
    box.addEventListener("change", () => change(box.value));
    return make("label", {}, label, box);
  }
  function drawChoices() {
    const form = find("choices"), refocus = document.activeElement?.closest("#choices label")?.firstChild.textContent;
    const names = several.map(axis => [axis, axes[axis].label]);
    const swap = (one, other) => value => {
      if (+value === state[other]) state[other] = state[one];
      state[one] = +value;
      draw();
    };
    form.replaceChildren(
      ...(several.length > 1 ? [select("across", names, state.x, swap("x", "y")), select("up", names, state.y, swap("y", "x"))] : []),
      ...several.filter(axis => axis !== state.x && axis !== state.y).map(axis =>
        select(axes[axis].label, axes[axis].values.map((text, at) => [at, text]), state.at[axis], value => { state.at[axis] = +value; draw(); })),
      ...(cells.limit.some(limit => limit >= 0) ? [select("colours", [["value", "throughput"], ["limit", "what bound it"]], state.colour, value => { state.colour = value; draw(); })] : []),
    );
    for (const label of form.children) if (label.firstChild.textContent === refocus) label.querySelector("select").focus();
  }
  const sizeOf = axis => axis < 0 ? 1 : sizes[axis];

  function drawMap() {
    const across = sizeOf(state.x), up = sizeOf(state.y), dense = across > DENSE || up > DENSE;
    const table = make("table", { class: `map${dense ? " dense" : across <= WIDE ? " wide" : ""}`, role: "grid", "aria-label": "Throughput in Gbit/s" });
    const axisName = axis => axis < 0 ? "" : axes[axis].label;
    table.append(make("caption", {}, [state.colour === "limit" ? "What bound each cell, and its throughput" : "Mean throughput", "Gbit/s",
      state.y >= 0 ? `${axisName(state.y)} up, ${axisName(state.x)} across` : axisName(state.x)].filter(Boolean).join(" · ")));
    const every = Math.ceil(across / DENSE), everyUp = Math.ceil(up / DENSE);
    const text = (axis, at, step) => axis < 0 || dense && at % step ? "" : axes[axis].values[at];
    const heads = Array.from({ length: across }, (_, x) => make("th", { scope: "col", title: state.x < 0 ? null : axes[state.x].values[x] }, text(state.x, x, every)));
    const body = make("tbody");
    const first = state.focus && state.focus[0] < across && state.focus[1] < up ? state.focus : [0, up - 1];
    for (let y = up - 1; y >= 0; y--) {
      const row = make("tr", {}, make("th", { scope: "row" }, make("span", {}, text(state.y, y, everyUp))));
      for (let x = 0; x < across; x++) {
        const at = placed(x, y), point = pointAt(at), grade = worst(point.list);
        const cell = make("td", { role: "gridcell", tabindex: x === first[0] && y === first[1] ? 0 : -1, "data-x": x, "data-y": y });
        if (!dense) cell.setAttribute("aria-label", said(at, point).replaceAll("\n", "; ")); // else once it is reached
        const classes = [];
        if (!point.all.length) classes.push("outside");
        else if (point.mean === null) { classes.push("none"); cell.textContent = dense ? "" : lacking(point); }
        else {
          const limit = point.bound.length ? limits[point.bound[0]][2] : "#dddddd";
          const fill = state.colour === "limit" ? [1, 3, 5].map(at => parseInt(limit.slice(at, at + 2), 16)) : colour(point.mean / top);
          cell.style.background = `rgb(${fill})`;
          cell.style.color = inkOn(fill);
          if (!dense) cell.textContent = number(point.mean);
        }
        if (grade > 0) classes.push(GRADES[grade]);
        if (point.all.some(one => state.shown.has(one))) classes.push("shown");
        if (point.all.includes(state.chosen)) classes.push("chosen");
        cell.className = classes.join(" ");
        row.append(cell);
      }
      body.append(row);
    }
    table.append(make("thead", {}, make("tr", {}, make("td", { class: "outside" }), ...heads)), body);
    if (dense) table.style.setProperty("--size", `${Math.max(4, Math.floor((find("scroll").clientWidth - 70) / across))}px`);
    find("scroll").replaceChildren(table);
    drawLegend();
  }
  function drawLegend() {
    const legend = find("legend"), item = (style, text, name = "") => make("span", {}, make("i", { class: name, style }), text);
    const seen = new Set(cells.limit);
    const colours = state.colour === "limit"
      ? limits.map(([name, meaning, fill], at) => seen.has(at) ? item(`background:${fill}`, name) : null)
      : [make("span", {}, "0 "), make("span", { class: "bar", style: `background:linear-gradient(90deg,${VIRIDIS.map(part => `rgb(${part})`)})` }), make("span", {}, `${number(top)} Gbit/s`)];
    const grades = new Set(flags.filter(flag => cells.flags.some(value => value & flag.mask)).map(flag => flag.grade));
    legend.replaceChildren(...[
      ...colours,
      grades.has("warning") ? item("--c:#fff", "warning", "corner") : null,
      grades.has("invalid") ? item("--c:#d55e00", "invalid", "corner") : null,
      cells.value.includes(null) ? item("", "failed or not measured", "hatched") : null,
    ].filter(Boolean));
  }
  function draw() { drawChoices(); drawMap(); if (find("surface").dataset.drawn) drawSurface(); }

  // ---- a cell

  const series = data.series && Uint8Array.from(atob(data.series.bytes), sign => sign.charCodeAt(0));
  const starts = [0];
  for (const count of data.transfers.counts) starts.push(starts.at(-1) + Math.min(count, data.transfers.most));
  const shell = text => /^[A-Za-z0-9_./=@:,+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

  function chart(cell) {
    if (!series) return make("p", { class: "soft" }, "Of so many cells the series are in the dataset alone.");
    const { points, step } = data.series, high = data.series.top[cell];
    const levels = series.subarray(cell * points, (cell + 1) * points);
    const last = levels.findLastIndex(level => level < 255) + 1;
    if (!last || !high) return make("p", { class: "soft" }, "There is no time series.");
    const W = 420, H = 170, left = 38, bottom = 28, above = 8, wide = W - left - 8, tall = H - bottom - above;
    const x = time => left + wide * time / (last * step), y = value => above + tall * (1 - value / high);
    let path = "", pen = "M";
    for (let at = 0; at < last; at++) {
      if (levels[at] === 255) continue; // a gap, or a clock that ticks more slowly
      path += `${pen}${x((at + .5) * step).toFixed(1)} ${y(levels[at] / 254 * high).toFixed(1)}`;
      pen = "L";
    }
    const warmup = cells.figures.find(figure => figure.name.startsWith("time cut as warm-up"))?.values[cell];
    const mean = cells.value[cell];
    return make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Goodput over ${number(last * step)} s, at most ${number(high)} Gbit/s` },
      warmup ? make("rect", { class: "warmup", x: left, y: above, width: Math.min(wide, x(warmup) - left), height: tall }) : null,
      make("line", { class: "axis", x1: left, x2: W - 8, y1: above + tall, y2: above + tall }),
      make("line", { class: "axis", x1: left, x2: left, y1: above, y2: above + tall }),
      mean !== null ? make("path", { class: "mean", d: `M${left} ${y(Math.min(mean, high))}H${W - 8}` }) : null,
      make("path", { class: "line", d: path }),
      make("text", { x: left - 5, y: above + 8, "text-anchor": "end" }, number(high)),
      make("text", { x: left - 5, y: above + tall, "text-anchor": "end" }, "0"),
      make("text", { x: left, y: H - 10 }, "0 s"),
      make("text", { x: W - 8, y: H - 10, "text-anchor": "end" }, `${number(last * step)} s`),
      make("text", { x: left + wide / 2, y: H - 10, "text-anchor": "middle" }, `goodput (Gbit/s), means of ${number(step)} s`));
  }
  function transfersOf(cell) {
    const { transfers } = data, count = transfers.counts[cell];
    if (!count) return make("p", { class: "soft" }, "No single transfers are recorded.");
    const rows = [];
    for (let row = starts[cell]; row < starts[cell + 1]; row++) {
      rows.push(make("tr", {}, ...[transfers.stream[row], number(transfers.start[row]), number(transfers.end[row]), number(transfers.rate[row])].map(text => make("td", { class: "number" }, `${text}`)),
        make("td", {}, transfers.ok[row] ? "" : `failed${transfers.message[row] ? `: ${transfers.message[row]}` : ""}`)));
    }
    const head = ["stream", "from (s)", "to (s)", "Gbit/s", ""].map(text => make("th", { scope: "col", class: text && "number" }, text));
    return make("details", {}, make("summary", {}, `${count} transfers${rows.length < count ? `, the first ${rows.length} of them` : ""}`),
      make("div", { class: "table", tabindex: 0 }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
  }
  function remeasured(cell) {
    if (!again || !again.cell[cell]) return [];
    const path = `${again.deployments[again.deployment[cell]]}/${again.cell[cell]}`, logs = `logs/${again.deployments[again.deployment[cell]]}/`;
    const command = `rm -f ${shell(`${again.folder}/${path}.json`)} && ${again.command}`;
    const copy = make("button", { type: "button" }, "Copy");
    copy.addEventListener("click", async () => { try { await navigator.clipboard.writeText(command); copy.textContent = "Copied"; } catch { copy.textContent = "Select and copy it"; } });
    const link = (to, text) => make("a", { href: to.split("/").map(encodeURIComponent).join("/") }, text);
    return [make("h3", {}, "Measure it again"), make("pre", { tabindex: 0 }, command), copy, make("h3", {}, "Files"),
      make("p", {}, link(logs, "logs of its deployment"), " · ", link(`cells/${path}.json`, "the cell's file"))];
  }
  function open(cell, focus) {
    const at = coordinates(cell), list = flagsOf(cell), panel = find("cell");
    state.chosen = cell;
    const value = cells.value[cell], point = { low: cells.low[cell], high: cells.high[cell] };
    const limit = cells.limit[cell] >= 0 ? limits[cells.limit[cell]] : null;
    const others = repeated < 0 || sizes[repeated] < 2 ? null : select("repetition", axes[repeated].values.map((text, nth) => [nth, text]), at[repeated], nth => {
      at[repeated] = +nth;
      open(flat(at));
      panel.querySelector("select").focus();
    });
    panel.replaceChildren(...[
      make("h3", {}, named(at) || "The cell"), others && make("div", { class: "choices" }, others),
      value === null
        ? make("p", { class: "value" }, ["not measured", "without a throughput", "failed"][cells.status[cell]])
        : make("p", { class: "value" }, `${number(value)} `, make("small", {}, `Gbit/s${point.low !== null && point.high !== null ? `, interval ${interval(point)}` : ""}`)),
      cells.message[cell] ? make("pre", {}, cells.message[cell]) : null,
      limit && make("p", {}, "Bound by ", make("strong", {}, limit[0]), `: ${limit[1]}.`),
      list.length ? make("ul", {}, ...list.map(flag => make("li", { class: flag.grade }, `${flag.grade}: ${flag.meaning}`))) : make("p", { class: "soft" }, "No flags."),
      chart(cell), transfersOf(cell),
      make("details", {}, make("summary", {}, "figures"), make("table", { class: "plain" }, make("tbody", {}, ...cells.figures.filter(figure => figure.values[cell] !== null).map(figure =>
        make("tr", {}, make("th", { scope: "row" }, figure.name), make("td", { class: "number" }, `${number(figure.values[cell])} ${figure.units}`)))))),
      ...remeasured(cell),
    ].filter(Boolean));
    for (const old of document.querySelectorAll(".map .chosen")) old.classList.remove("chosen");
    const here = document.querySelector(`.map td[data-x="${state.x < 0 ? 0 : at[state.x]}"][data-y="${state.y < 0 ? 0 : at[state.y]}"]`);
    here?.classList.add("chosen");
    if (focus) { panel.focus({ preventScroll: true }); panel.scrollIntoView({ block: "nearest" }); }
  }

  // ---- what people do

  const board = find("scroll"), tip = find("tip");
  const target = event => event.target.closest?.("td[data-x]");
  const spot = cell => placed(+cell.dataset.x, +cell.dataset.y);
  function tell(cell) {
    const box = cell.getBoundingClientRect();
    tip.textContent = said(spot(cell), pointAt(spot(cell)));
    tip.hidden = false;
    tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, box.left + box.width / 2 - tip.offsetWidth / 2))}px`;
    tip.style.top = `${box.top > tip.offsetHeight + 12 ? box.top - tip.offsetHeight - 8 : box.bottom + 8}px`;
  }
  const hush = () => { tip.hidden = true; };
  function choose(cell) {
    const point = pointAt(spot(cell));
    hush();
    state.focus = [+cell.dataset.x, +cell.dataset.y];
    if (point.all.length) open(point.well[0] ?? point.all[0], true);
  }
  board.addEventListener("pointerover", event => { const cell = target(event); if (cell && event.pointerType !== "touch") tell(cell); else hush(); });
  board.addEventListener("pointerleave", hush);
  board.addEventListener("focusin", event => {
    const cell = target(event);
    if (!cell) return;
    if (!cell.hasAttribute("aria-label")) cell.setAttribute("aria-label", said(spot(cell), pointAt(spot(cell))).replaceAll("\n", "; "));
    if (cell.matches(":focus-visible")) tell(cell);
  });
  board.addEventListener("focusout", hush);
  addEventListener("scroll", hush, { passive: true });
  board.addEventListener("click", event => { const cell = target(event); if (cell) choose(cell); });
  board.addEventListener("keydown", event => {
    const cell = target(event);
    if (!cell) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(cell); return; }
    if (event.key === "Escape") { hush(); return; }
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], Home: [-1e9, 0], End: [1e9, 0] }[event.key] ?? [0, 0];
    if (!dx && !dy) return;
    event.preventDefault();
    const within = (place, size) => Math.max(0, Math.min(size - 1, place));
    const x = within(+cell.dataset.x + dx, sizeOf(state.x)), y = within(+cell.dataset.y + dy, sizeOf(state.y));
    const next = board.querySelector(`td[data-x="${x}"][data-y="${y}"]`);
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  find("cell").addEventListener("keydown", event => {
    if (event.key === "Escape") board.querySelector(".chosen")?.focus();
  });
  document.querySelector(".findings").addEventListener("click", event => {
    const button = event.target.closest("button"), pressed = button?.getAttribute("aria-pressed") === "true";
    if (!button) return;
    for (const other of document.querySelectorAll(".findings button")) other.setAttribute("aria-pressed", other === button && !pressed);
    state.shown = new Set(pressed ? [] : button.dataset.cells.split(" ").map(Number));
    if (!pressed) {
      const [first] = state.shown;
      for (const [axis, place] of coordinates(first).entries()) if (axis !== repeated) state.at[axis] = place;
      draw();
      if (state.shown.size === 1) open(first);
      find("map").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    } else draw();
  });

  // ---- the surface: the library is a text in this page until it is asked for

  function drawSurface() {
    const box = find("surface"), told = find("drawn");
    if (sizeOf(state.x) < 2 || sizeOf(state.y) < 2) { told.textContent = "It takes two axes with two values or more."; return; }
    if (!window.Plotly) document.body.append(make("script", {}, find("plotly").textContent));
    const style = getComputedStyle(document.body), line = getComputedStyle(document.documentElement).getPropertyValue("--line");
    const z = Array.from({ length: sizes[state.y] }, (_, y) => Array.from({ length: sizes[state.x] }, (_, x) => pointAt(placed(x, y))));
    const ticks = axis => { const step = Math.ceil(sizes[axis] / 10), at = axes[axis].values.map((_, nth) => nth).filter(nth => nth % step === 0); return { tickvals: at, ticktext: at.map(nth => axes[axis].values[nth]) }; };
    const axis = which => ({ title: { text: axes[which].label }, gridcolor: line, zerolinecolor: line, ...ticks(which) });
    const escaped = text => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("\n", "<br>");
    box.hidden = false;
    box.dataset.drawn = "yes";
    const far = Math.max(1, box.clientHeight / box.clientWidth); // on a phone it is as wide as it was high
    try {
      window.Plotly.react(box, [{
        type: "surface", z: z.map(row => row.map(point => point.mean)), colorscale: "Viridis", cmin: 0, cmax: top, connectgaps: false,
        text: z.map((row, y) => row.map((point, x) => escaped(said(placed(x, y), point)))), hovertemplate: "%{text}<extra></extra>",
        colorbar: { title: { text: "Gbit/s" }, thickness: 12 }, showscale: innerWidth > 700,
      }], {
        margin: { l: 0, r: 0, t: 44, b: 0 }, paper_bgcolor: "rgba(0,0,0,0)", modebar: { bgcolor: "rgba(0,0,0,0)", color: style.color }, font: { color: style.color, family: style.fontFamily },
        scene: { xaxis: axis(state.x), yaxis: axis(state.y), zaxis: { title: { text: "Gbit/s" }, gridcolor: line, zerolinecolor: line, range: [0, top] }, camera: { eye: { x: -1.5 * far, y: -1.5 * far, z: .9 * far }, center: { x: 0, y: 0, z: -.2 } } },
      }, { responsive: true, displaylogo: false });
      told.textContent = named(state.at, several.filter(axis => axis !== state.x && axis !== state.y));
    } catch (error) { told.textContent = `This browser cannot draw it: ${error.message}`; }
  }
  find("draw").addEventListener("click", drawSurface);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (find("surface").dataset.drawn) drawSurface(); });

  // It begins with the highest throughput.
  const best = cells.value.indexOf(cells.value.reduce((most, value) => value > most ? value : most, -1));
  if (best >= 0) for (const [axis, place] of coordinates(best).entries()) if (axis !== repeated) state.at[axis] = place;
  draw();
  if (best >= 0) open(best);
}
// What was found is read first: it is painted before the map is made.
requestAnimationFrame(() => setTimeout(begin));
