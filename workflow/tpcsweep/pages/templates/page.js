"use strict";
// A sweep's page: its state is the part of the address after #, so that every view and every cell has a link.

/** @type {PageData} */
const data = JSON.parse(document.getElementById("data").textContent);
const { axes, cells, points, flags, limits, again, plans } = data;
const find = id => /** @type {any} */ (document.getElementById(id));
const sizes = axes.map(axis => axis.values.length), repeated = axes.findIndex(axis => axis.repetition);
const several = d3.range(axes.length).filter(at => sizes[at] > 1 && at !== repeated);
const strides = without => sizes.map((_, at) => at === without ? 0 : sizes.reduce((all, size, later) => later > at && later !== without ? all * size : all, 1));
const ofPoint = strides(repeated), ofCell = strides(-1);
const flat = (at, by) => d3.sum(at, (place, axis) => place * by[axis]);
const cellOf = (row, repetition) => flat(row.at.map((place, axis) => axis === repeated ? repetition : place), ofCell);
const cellsOf = row => d3.range(repeated < 0 ? 1 : sizes[repeated]).map(repetition => cellOf(row, repetition));
const rows = d3.range(points.value.length).map(point => ({
  point, text: "", at: axes.map((_, axis) => axis === repeated ? 0 : Math.floor(point / ofPoint[axis]) % sizes[axis]),
  mean: amount(points.value[point]), low: amount(points.low[point]), high: amount(points.high[point]), path: amount(points.path[point]), quota: amount(points.quota[point]),
  fitted: points.fitted ? amount(points.fitted[point]) : null, ratio: points.ratio ? amount(points.ratio[point]) : null, limit: points.limit[point], grade: points.grade[point], state: points.state[point],
}));
const inside = rows.filter(row => row.state !== 3);
const highest = d3.max(rows, row => Math.max(row.mean ?? 0, row.fitted ?? 0)) || 1; // without throughput there is a scale all the same
const series = data.series.quantities.map(({ bytes }) => Uint8Array.from(atob(bytes), sign => sign.charCodeAt(0)));
const messages = new Map(cells.message), causes = new Map(data.transfers.message);
const starts = [0, ...d3.cumsum(data.transfers.counts, count => Math.min(count, data.transfers.most))];
const MOST = 20000, PAGE = 100; // points that are drawn at once, and rows of the table
const STATES = ["not measured", "without a throughput", "failed", "not part of the sweep"];

// Texts of data are set as text, never as HTML.
/** @param {Record<string, any>} about @param {...any} within */
function make(name, about = {}, ...within) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(about)) if (value !== null && value !== false) element.setAttribute(key, value);
  element.append(...within.flat().filter(one => one !== null && one !== undefined && one !== false));
  return element;
}
const named = row => several.map(axis => `${axes[axis].label} ${axes[axis].values[row.at[axis]]}`).join(", ");
const cellText = row => row.text ||= several.map(axis => encodeURIComponent(axes[axis].values[row.at[axis]])).join(",");
const byText = new Map(inside.map(row => [decodeURIComponent(cellText(row)), row]));
const flagsOf = row => flags.filter(flag => cellsOf(row).some(cell => cells.flags[cell] & flag.mask));
const between = (low, high) => low === null || high === null || low === high ? "" : `${amount(low) < 0 ? "0" : low} to ${high}`;
function describe(row) {
  const mean = points.value[row.point], ends = between(points.low[row.point], points.high[row.point]);
  return [named(row), mean === null ? STATES[row.state] : `${mean} Gbit/s${ends ? ` (${ends})` : ""}`,
    row.limit >= 0 ? `limited by ${limits[row.limit][0]}` : "", row.fitted !== null ? `fitted ${points.fitted[row.point]} Gbit/s` : "", ...row.grade ? flagsOf(row).map(flag => `${flag.grade}: ${flag.words}`) : []].filter(Boolean).join("\n");
}
// ---- the state
const VIEWS = { lines: "lines", limit: "map of limits", value: "map of throughput", fitted: "map of the fit", ratio: "fit over measured" };
const views = Object.keys(VIEWS).filter(view => view === "limit" ? cells.limit.some(limit => limit >= 0) : view === "lines" || view === "value" || points.fitted);
const axisKeys = { x: data.x, y: data.y, columns: data.columns };
/** @type {Record<string, string>} */
let state = {};
const isAxis = key => axes.findIndex((axis, at) => axis.key === key && several.includes(at));
function places() {
  const [x, y, columns] = Object.entries(axisKeys).map(([key, usual]) => key in state ? isAxis(state[key]) : usual);
  return { x, y, columns, rest: several.filter(axis => ![x, y, columns].includes(axis)) };
}
const view = () => views.includes(state.view) ? state.view : views[0];
const read = () => { state = Object.fromEntries(new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"))); };
/** Change the state, and draw the parts that show it. @param {Record<string, any>} changes */
function go(changes) {
  for (const [key, value] of Object.entries(changes)) if (value === null || value === "") delete state[key]; else state[key] = `${value}`;
  history.replaceState(null, "", `#${Object.entries(state).map(([key, value]) => `${key}=${key === "cell" ? value.split(",").map(encodeURIComponent).join(",") : encodeURIComponent(value)}`).join("&")}`);
  const only = (...keys) => Object.keys(changes).every(key => keys.includes(key));
  (only("cell", "repetition") ? openCell : only("sort", "rows") ? drawTable : only("finding") ? outline : show)();
}
const show = () => { drawControls(); drawPicture(); drawTable(); openCell(); };
function chosen() {
  const row = byText.get(state.cell);
  // It begins with the first cell without a warning that is within 2 % of the highest throughput.
  return row || d3.greatest(inside, row => Math.round(50 * (row.mean ?? -1) / highest) - (row.grade > 1 ? 1e6 : 0));
}
function filtered() {
  const only = several.filter(axis => `only.${axes[axis].key}` in state), flag = flags.find(one => one.words === state.flag);
  return inside.filter(row => only.every(axis => axes[axis].values[row.at[axis]] === state[`only.${axes[axis].key}`])
    && (!state.limit || limits[row.limit]?.[0] === state.limit) && (!state.flag || (flag ? flagsOf(row).includes(flag) : row.grade < 2)));
}
// ---- controls, picture and table
/** A select that changes the state. @param {string[][]} options values and texts */
function select(key, label, options, value) {
  const box = make("select", { name: key }, options.map(([one, text]) => make("option", { value: one, selected: one === value ? "" : null }, text)));
  box.addEventListener("change", () => { go({ [key]: box.value }); document.querySelector(`[name="${CSS.escape(key)}"]`)?.["focus"](); });
  return make("label", {}, label, box);
}
function drawControls() {
  const at = places(), names = [...several.map(axis => [axes[axis].key, axes[axis].label])], none = ["none", "–"];
  const radios = views.map(one => {
    const box = make("input", { type: "radio", name: "view", value: one, checked: one === view() ? "" : null });
    box.addEventListener("change", () => { go({ view: one }); document.querySelector("#choices input:checked")["focus"](); });
    return make("label", { class: "radio" }, box, ` ${VIEWS[one]}`);
  });
  const selects = several.length < 2 ? [] : [["x", "x"], ["y", view() === "lines" ? "lines" : "up"], ["columns", "panels across"]].map(([key, label]) => select(key, label, [...names, ...key === "x" ? [] : [none]], at[key] < 0 ? "none" : axes[at[key]].key));
  find("choices").replaceChildren(make("fieldset", {}, make("legend", { class: "hidden" }, "picture"), radios), ...selects);
  const all = ["", "all"], held = cells.flags.reduce((every, value) => every | value, 0);
  find("filters").replaceChildren(...several.map(axis => { const key = `only.${axes[axis].key}`; return select(key, axes[axis].label, [all, ...axes[axis].values.map(text => [text, text])], state[key] ?? ""); }),
    select("limit", "limit", [all, ...[...new Set(inside.map(row => row.limit))].filter(limit => limit >= 0).map(limit => [limits[limit][0], limits[limit][0]])], state.limit ?? ""),
    select("flag", "flag", [all, ["none", "no warning"], ...flags.filter(flag => held & flag.mask).map(flag => [flag.words, `${flag.grade}: ${flag.words}`])], state.flag ?? ""));
}
/** @type {Map<string, Element>} */
let links = new Map();
function drawPicture() {
  const box = find("picture"), all = filtered(), shown = all.slice(0, MOST), empty = { chart: make("p", {}, "No setting passes the filters."), legend: [] };
  const { chart, legend } = !all.length ? empty : view() === "lines" ? drawLines(shown, places(), box) : drawMap(shown, places(), box, view());
  if (all.length) chart.setAttribute("aria-label", `Throughput, ${VIEWS[view()]}`);
  box.replaceChildren(chart); find("legend").replaceChildren(...legend);
  find("drawn").textContent = [all.length < inside.length && `${all.length} of ${inside.length} settings, by the filters of the table.`, all.length > MOST && `The first ${MOST} of them are drawn: choose others with the filters.`].filter(Boolean).join(" ");
  links = new Map([...box.querySelectorAll("a")].map(link => [link.getAttribute("href"), link]));
  for (const link of links.values()) { link.setAttribute("tabindex", "-1"); link.setAttribute("aria-label", link.firstElementChild.getAttribute("aria-label").replaceAll("\n", "; ")); link.firstElementChild.removeAttribute("aria-label"); }
  if (!chosen() || !linkOf(chosen())) links.values().next().value?.setAttribute("tabindex", "0");
  outline();
}
const linkOf = row => /** @type {any} */ (links.get(`#cell=${cellText(row)}`));
/** Outline the cells of the chosen finding. */
function outline() {
  const buttons = [...document.querySelectorAll(".findings button")], button = /** @type {any} */ (buttons.find(one => one["value"] === state.finding));
  for (const other of buttons) other.setAttribute("aria-pressed", `${other === button}`);
  const held = new Set(button ? button.dataset.cells.split(" ").map(Number) : []);
  for (const row of inside) { const link = held.size || linkOf(row)?.classList.contains("shown") ? linkOf(row) : null; link?.classList.toggle("shown", cellsOf(row).some(cell => held.has(cell))); }
}
const COLUMNS = [...several.map(axis => ({ key: axes[axis].key, label: axes[axis].label, value: row => row.at[axis], text: row => axes[axis].values[row.at[axis]] })),
  { key: "throughput", label: "Gbit/s", value: row => row.mean ?? -1, text: row => points.value[row.point] ?? STATES[row.state] },
  { key: "interval", label: "95 % interval", value: row => row.mean ? (row.high - row.low) / row.mean : -1, text: row => between(points.low[row.point], points.high[row.point]) },
  { key: "limit", label: "limit", value: row => row.limit, text: row => limits[row.limit]?.[0] ?? "" },
  { key: "flags", label: "flags", value: row => row.grade, text: row => flagsOf(row).map(flag => flag.words).join(", ") }];
function drawTable() {
  const [by, order] = (state.sort ?? "").split(" "), column = COLUMNS.find(one => one.key === by), list = filtered(), most = +(state.rows ?? PAGE);
  if (column) list.sort((a, b) => (order === "down" ? -1 : 1) * (column.value(a) - column.value(b)) || a.point - b.point);
  const heads = COLUMNS.map(one => {
    const direction = one === column ? order : null, button = make("button", { type: "button", class: "quiet" }, one.label);
    button.addEventListener("click", () => { go({ sort: `${one.key} ${direction === "up" ? "down" : "up"}` }); find("table").querySelector(`[data-key="${one.key}"] button`).focus(); });
    return make("th", { scope: "col", "data-key": one.key, "aria-sort": direction && (direction === "up" ? "ascending" : "descending") }, button);
  });
  const line = row => make("tr", {}, COLUMNS.map((one, nth) => make("td", {}, nth ? one.text(row) : make("a", { href: `#cell=${cellText(row)}` }, one.text(row)))));
  find("table").replaceChildren(make("table", { class: "plain" }, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, list.slice(0, most).map(line))));
  find("more").hidden = list.length <= most;
  find("more").textContent = `Show more of the ${list.length} settings`;
}
// ---- a cell
const shell = text => /^[A-Za-z0-9_./=@:,+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
function evidence(cell, width) {
  const shares = cells.shares?.[cell] ?? [], list = shares.map(([limit, percent]) => `${limits[limit][0]} ${percent} %`).join(", ");
  const bound = limit => { const share = shares.find(([at]) => at === limit)?.[1]; return ["Limited by ", make("strong", {}, limits[limit][0]), `${share ? ` for ${share} % of its time` : ""}: ${limits[limit][1]}. `]; };
  const advice = cells.limit[cell] < 0 ? "" : cells.advice.texts[cells.advice.at[cell]];
  return [cells.limit[cell] >= 0 && make("p", {}, [cells.limit[cell], cells.second[cell]].filter(limit => limit >= 0).flatMap(bound)), advice && make("p", { class: "advice" }, advice),
    ...shares.length ? [drawShares(shares, width, `Shares of the cell's time: ${list}`), make("p", { class: "soft shares" }, `Shares of its time: ${list}.`)] : []];
}
function transfersOf(cell) {
  const { transfers } = data, count = transfers.counts[cell], lines = d3.range(starts[cell], starts[cell + 1]);
  if (!count) return make("p", { class: "soft" }, "No single transfers are recorded.");
  const line = row => make("tr", {}, [transfers.stream, transfers.start, transfers.end, transfers.rate].map(column => make("td", { class: "number" }, `${column[row] ?? ""}`)), make("td", {}, transfers.ok[row] ? "" : `failed${causes.has(row) ? `: ${causes.get(row)}` : ""}`));
  const head = ["stream", "from (s)", "to (s)", "Gbit/s", "outcome"].map(text => make("th", { scope: "col" }, text));
  return make("details", {}, make("summary", {}, `${count} transfers${lines.length < count ? `, the first ${lines.length} of them` : ""}`), make("div", { class: "table", tabindex: 0, role: "region", "aria-label": "transfers" }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, lines.map(line)))));
}
function remeasured(cell) {
  if (!again || !again.cell[cell]) return [];
  const deployment = again.deployment[cell], path = `${again.deployments[deployment]}/${again.cell[cell]}`, command = `rm -f ${shell(`${again.folder}/${path}.json`)} && ${again.command}`;
  const copy = make("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => { try { await navigator.clipboard.writeText(command); copy.textContent = "Copied"; } catch { copy.textContent = "Select and copy it"; } });
  const link = (to, text) => make("p", {}, make("a", { href: to.split("/").map(encodeURIComponent).join("/") }, text));
  return [make("details", {}, make("summary", {}, "Measure it again"), make("pre", { tabindex: 0, "aria-label": "command" }, command), copy),
    again.logs[deployment] && link(`logs/${again.deployments[deployment]}/`, "logs of its deployment"), again.files[cell] && link(`cells/${path}.json`, "the cell's file")];
}
function openCell() {
  const row = chosen(), panel = find("cell");
  if (!row) return;
  const nth = Math.max(0, repeated < 0 ? 0 : state.repetition ? axes[repeated].values.indexOf(state.repetition) : cellsOf(row).findIndex(cell => cells.value[cell] !== null)), cell = cellOf(row, nth);
  const ends = between(cells.low[cell], cells.high[cell]), list = flags.filter(flag => cells.flags[cell] & flag.mask), mean = points.value[row.point], width = Math.max(260, panel.clientWidth - 36);
  const others = repeated >= 0 && sizes[repeated] > 1 && make("p", { class: "choices" }, select("repetition", `repetition${mean === null ? "" : ` of a mean of ${mean} Gbit/s`}`, axes[repeated].values.map(text => [text, text]), axes[repeated].values[nth]));
  const about = { mean: amount(cells.value[cell]), low: amount(cells.low[cell]), high: amount(cells.high[cell]), path: row.path, quota: row.quota, warmup: amount(cells.figures.find(figure => figure.key === "warmup")?.values[cell] ?? null) };
  const drawn = drawSeries(cell, about, width);
  panel.replaceChildren(...[
    make("h2", {}, named(row) || "The cell"), others,
    cells.value[cell] === null ? make("p", { class: "value" }, STATES[cells.status[cell]]) : make("p", { class: "value" }, `${cells.value[cell]} `, make("small", {}, `Gbit/s${ends ? `, interval ${ends}` : ""}${row.fitted !== null ? `; fitted ${points.fitted[row.point]}` : ""}`)),
    messages.has(cell) && make("pre", { tabindex: 0, "aria-label": "message" }, messages.get(cell)), ...evidence(cell, width),
    list.length ? list.map(flag => make("details", { class: `flag ${flag.grade}` }, make("summary", {}, `${flag.grade}: ${flag.words}`), flag.meaning)) : make("p", { class: "soft" }, "No flags."),
    ...drawn.length ? [...drawn, make("p", { class: "soft" }, `Means of ${data.series.step_text} s; grey: warm-up; band: the interval.`)] : [make("p", { class: "soft" }, data.series.absent)], transfersOf(cell),
    make("details", {}, make("summary", {}, "figures"), make("table", { class: "plain" }, make("tbody", {}, cells.figures.filter(figure => figure.values[cell] !== null).map(figure => make("tr", {}, make("th", { scope: "row" }, figure.name), make("td", { class: "number" }, `${figure.values[cell]} ${figure.units}`)))))),
    ...remeasured(cell),
  ].flat().filter(Boolean));
  for (const old of find("picture").querySelectorAll(".chosen, [tabindex='0']")) { old.classList.remove("chosen"); old.setAttribute("tabindex", "-1"); }
  const link = linkOf(row);
  link?.classList.add("chosen");
  link?.setAttribute("tabindex", "0");
  if (view() !== "lines" && link !== document.activeElement) link?.parentNode.append(link); // its outline lies above its neighbours
}
// ---- what people do
const MOVES = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowUp: ["y", 1], ArrowDown: ["y", -1], Home: ["x", -1e9], End: ["x", 1e9] };
const hrefOf = link => link?.getAttribute("href") ?? "";
const toPanel = () => { find("cell").focus({ preventScroll: true }); find("cell").scrollIntoView({ block: "nearest" }); };
document.addEventListener("click", event => {
  const link = event.target["closest"]?.("a"), href = hrefOf(link);
  if (!href.startsWith("#cell=") || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  go({ cell: decodeURIComponent(href.slice(6)), repetition: null });
  toPanel();
});
find("picture").addEventListener("keydown", event => {
  const row = chosen(), [key, by] = MOVES[event.key] ?? [], axis = key ? places()[key] : -1;
  if ([" ", "Enter"].includes(event.key)) { event.preventDefault(); event.target["dispatchEvent"](new MouseEvent("click", { bubbles: true })); }
  if (!row || !key) return;
  event.preventDefault();
  const at = row.at.map((place, one) => one === axis ? Math.max(0, Math.min(sizes[axis] - 1, place + by)) : place), next = rows[flat(at, ofPoint)];
  if (next.state !== 3) go({ cell: decodeURIComponent(cellText(next)), repetition: null });
  linkOf(chosen())?.focus();
});
find("cell").addEventListener("keydown", event => { if (event.key === "Escape") linkOf(chosen())?.focus(); });
find("more").addEventListener("click", () => go({ rows: 10 * +(state.rows ?? PAGE) }));
document.querySelector(".findings").addEventListener("click", event => {
  const button = event.target["closest"]("button");
  if (!button) return;
  go({ finding: button.value === state.finding ? null : button.value });
  if (state.finding) find("map").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
});

/** Answer from plans: for each RTT the settings, cheapest first, that are each sure to reach more than all cheaper ones. */
function answer() {
  const form = find("plan"), target = +form.elements.target.value, rtt = +form.elements.rtt.value, box = find("planned"), at = plans.rtts.findIndex(known => known >= rtt);
  if (!(target > 0) || !(rtt >= 0)) { box.textContent = "Type a throughput in Gbit/s and an RTT in ms."; return; }
  if (at < 0) { box.textContent = `The data end at an RTT of ${plans.rtts.at(-1)} ms: tpcsweep plan extrapolates.`; return; }
  const place = plans.others.reduce((sum, other, nth) => sum * other.values.length + +form.elements[`other${nth}`].value, 0);
  const table = place * plans.rtts.length + at, settings = plans.tables[table], best = settings.find(setting => setting[0] >= target), most = settings.at(-1), sure = `reached with a probability of ${plans.probability}`;
  if (!most) { box.textContent = "The model has no prediction for this RTT."; return; }
  box.replaceChildren(make("p", {}, make("strong", {}, best ? `streams ${best[5]}, cores ${best[3]}, origins ${best[4]}` : `Not ${sure} by any setting inside the data`),
    best ? ` at RTT ${plans.rtts[at]} ms: ${best[1]} Gbit/s is ${sure}; expected ${best[2]}.` : `: ${most[1]} Gbit/s at most, with streams ${most[5]}, cores ${most[3]}, origins ${most[4]}, at RTT ${plans.rtts[at]} ms. ${plans.measured[table]}`));
}
function draw() {
  show();
  for (const box of document.querySelectorAll(".effects")) box.replaceChildren(drawEffects(JSON.parse(box["dataset"].changes), box.clientWidth));
}
if (plans) { find("plan").addEventListener("input", answer); find("plan").addEventListener("submit", event => event.preventDefault()); answer(); }
read();
addEventListener("hashchange", () => { read(); show(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
let width = innerWidth;
addEventListener("resize", () => { if (width !== innerWidth) { width = innerWidth; draw(); } });
requestAnimationFrame(() => setTimeout(() => { // text is painted before charts are made
  draw();
  if (state.cell && getComputedStyle(find("cell")).position === "static") toPanel(); // a link to a cell opens below the picture
}));
