"use strict";
function begin() {
  /** Data with the names of pages/contract.py: any other name is an error, not `undefined`. */
  function strict(value) {
    if (Array.isArray(value)) return value.map(strict);
    if (value === null || typeof value !== "object") return value;
    return new Proxy(Object.fromEntries(Object.entries(value).map(([name, inside]) => [name, strict(inside)])), {
      get(known, name) {
        if (typeof name === "string" && !Object.hasOwn(known, name)) throw new TypeError(`The data of this page have no ${name}.`);
        return known[name];
      },
    });
  }
  const data = strict(JSON.parse(document.getElementById("data").textContent));
  const { axes, cells, points, flags, limits, again, plans } = data;
  const find = id => document.getElementById(id);
  const sizes = axes.map(axis => axis.values.length);
  const strides = sizes.map((_, at) => sizes.slice(at + 1).reduce((a, b) => a * b, 1));
  const repeated = axes.findIndex(axis => axis.repetition);
  const several = axes.map((axis, at) => at).filter(at => sizes[at] > 1 && at !== repeated);
  const state = { show: "", shown: new Set() };
  const DENSE = 20; // values of an axis beyond which cells have no numbers
  const MOST = 20000; // cells that are drawn at once
  const GRADES = ["note", "warning", "invalid"];
  // Viridis, at equal steps: its lightness grows, for whatever eyes and in grey.
  const VIRIDIS = ["440154", "482878", "3e4a89", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"].map(rgb);

  // Whatever is shown of data is set as text, never as HTML.
  function make(name, about = {}, ...inside) {
    const SVG = ["svg", "line", "path", "rect", "text", "title"].includes(name);
    const element = SVG ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(about)) if (value !== null && value !== false) element.setAttribute(key, value);
    element.append(...inside.filter(one => one !== null && one !== undefined));
    return element;
  }
  function rgb(hex) { return [0, 2, 4].map(at => parseInt(hex.slice(at, at + 2), 16)); }
  /** The value of a number's text; no number is rounded here. */
  const amount = text => text === null ? null : Number(text.replace("×10", "e").replace(/[⁻⁰¹²³⁴-⁹]/g, sign => "-0123456789"["⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(sign)]));
  const largest = texts => texts.reduce((most, text) => text !== null && !(amount(text) <= amount(most)) ? text : most, "0");
  const top = largest([...points.value, ...points.fitted ?? []]);
  const highest = amount(top) || 1; // without throughput there is a scale all the same
  const colour = value => {
    const share = amount(value) / highest;
    const place = Math.min(1, Math.max(0, share)) * (VIRIDIS.length - 1), low = Math.min(Math.floor(place), VIRIDIS.length - 2);
    return VIRIDIS[low].map((part, at) => Math.round(part + (VIRIDIS[low + 1][at] - part) * (place - low)));
  };
  const inkOn = ([red, green, blue]) => {
    const linear = part => (part /= 255) <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4;
    return .2126 * linear(red) + .7152 * linear(green) + .0722 * linear(blue) > .18 ? "#111" : "#fff";
  };
  const flagsOf = cell => flags.filter(flag => cells.flags[cell] & flag.mask);
  const coordinates = cell => axes.map((_, at) => Math.floor(cell / strides[at]) % sizes[at]);
  const flat = at => at.reduce((sum, place, axis) => sum + place * strides[axis], 0);
  const exists = cell => !again || again.cell[cell] !== "" || cells.status[cell] > 0;
  const sizeOf = axis => axis < 0 ? 1 : sizes[axis];
  const named = (at, which = several) => which.map(axis => `${axes[axis].label} ${axes[axis].values[at[axis]]}`).join(", ");

  /** A point of a panel: its repetitions as one. */
  function pointAt(at) {
    const count = sizeOf(repeated), first = at.map((place, axis) => axis === repeated ? 0 : place);
    const start = flat(first), step = repeated < 0 ? 1 : strides[repeated];
    const number = repeated < 0 ? start : Math.floor(start / (count * step)) * step + start % step;
    const all = Array.from({ length: count }, (_, nth) => start + nth * step).filter(exists);
    const well = all.filter(cell => cells.value[cell] !== null);
    const ends = (texts, pick) => well.map(cell => texts[cell] ?? cells.value[cell]).reduce((one, other) => pick(amount(one), amount(other)) === amount(one) ? one : other, well.length ? texts[well[0]] ?? cells.value[well[0]] : null);
    const list = flags.filter(flag => all.some(cell => cells.flags[cell] & flag.mask));
    const votes = well.map(cell => cells.limit[cell]).filter(limit => limit >= 0);
    const bound = [...new Set(votes)].sort((a, b) => votes.filter(v => v === b).length - votes.filter(v => v === a).length);
    return { number, all, well, mean: points.value[number], low: ends(cells.low, Math.min), high: ends(cells.high, Math.max), list, bound,
      grade: GRADES[list.reduce((most, flag) => Math.max(most, GRADES.indexOf(flag.grade)), -1)], failed: all.some(cell => cells.status[cell] === 2) };
  }
  const interval = point => point.low === null || point.low === point.high ? "" : `${amount(point.low) < 0 ? "0" : point.low} to ${point.high}`;
  const lacking = point => point.failed ? "failed" : point.all.length ? "not measured" : "not part of the sweep";
  function said(at, point) {
    const lines = [named(at)];
    lines.push(point.mean === null ? lacking(point) : `${point.mean} Gbit/s${interval(point) ? ` (${interval(point)})` : ""}`);
    if (point.well.length > 1) lines.push(`mean of ${point.well.length} repetitions`);
    if (point.bound.length) lines.push(`limited by ${point.bound.map(limit => limits[limit][0]).join(", ")}`);
    if (points.fitted) lines.push(`fitted ${points.fitted[point.number]} Gbit/s`);
    return [...lines, ...point.list.map(flag => `${flag.grade}: ${flag.words}`)].join("\n");
  }

  // ---- the panels: one for each combination of the axes that are neither across nor up

  const judged = cells.limit.some(limit => limit >= 0);
  const SHOWS = { limit: "limits", value: "throughput", fitted: "fitted throughput", ratio: "fitted over measured" };
  function drawChoices() {
    const known = Object.keys(SHOWS).filter(show => show === "limit" ? judged : show === "value" || points.fitted);
    state.show = known[0];
    find("choices").replaceChildren(...known.length < 2 ? [] : known.map(show => {
      const box = make("input", { type: "radio", name: "show", value: show, checked: show === state.show ? "" : null });
      box.addEventListener("change", () => { state.show = show; draw(); });
      return make("label", {}, box, ` ${SHOWS[show]}`);
    }));
  }
  function look(point) {
    if (state.show === "limit") return [point.bound.length ? rgb(limits[point.bound[0]][2].slice(1)) : rgb("e4e4e4"), point.mean];
    if (state.show === "value") return [colour(point.mean), point.mean];
    if (state.show === "fitted") return [colour(points.fitted[point.number]), points.fitted[point.number]];
    // Blue below 1, red above, white where both are the same; a factor of two is full colour.
    const off = Math.max(-1, Math.min(1, Math.log2(amount(points.ratio[point.number] ?? "1")))), to = off < 0 ? [33, 102, 172] : [178, 24, 43];
    return [to.map(part => Math.round(247 + (part - 247) * Math.abs(off))), points.ratio[point.number]];
  }
  function drawCell(at, dense) {
    const point = pointAt(at), classes = [], cell = make("td", { role: "gridcell", tabindex: -1, "data-cell": flat(at) });
    if (!point.all.length) classes.push("outside");
    else if (point.mean === null) { classes.push("none"); if (!dense) cell.textContent = point.failed ? "failed" : "–"; }
    else {
      const [fill, text] = look(point);
      cell.style.backgroundColor = `rgb(${fill})`;
      cell.style.color = inkOn(fill);
      if (!dense) cell.append(...[state.show === "limit" && point.bound.length ? make("b", {}, limits[point.bound[0]][3]) : null, make("span", {}, text ?? "")].filter(Boolean));
    }
    if (point.grade && point.grade !== "note") classes.push(point.grade);
    if (point.all.some(one => state.shown.has(one))) classes.push("shown");
    if (point.all.includes(state.chosen)) classes.push("chosen");
    cell.className = classes.join(" ");
    return cell;
  }
  function drawPanel(facet, size) {
    const across = sizeOf(data.x), up = sizeOf(data.y), dense = across > DENSE || up > DENSE;
    const every = Math.ceil(across / DENSE), everyUp = Math.ceil(up / DENSE);
    const text = (axis, at, step) => axis < 0 || dense && at % step ? "" : axes[axis].values[at];
    const place = (x, y) => axes.map((_, axis) => axis === data.x ? x : axis === data.y ? y : facet[axis] ?? 0);
    const title = named(place(0, 0), data.facets.filter(axis => several.includes(axis)));
    const table = make("table", { class: `map${dense ? " dense" : ""}`, role: "grid", "aria-label": `Throughput in Gbit/s${title ? `, ${title}` : ""}` });
    if (title) table.append(make("caption", {}, title));
    const heads = Array.from({ length: across }, (_, x) => make("th", { scope: "col" }, text(data.x, x, every)));
    const rows = Array.from({ length: up }, (_, y) => up - 1 - y).map(y =>
      make("tr", {}, make("th", { scope: "row" }, make("span", {}, text(data.y, y, everyUp))), ...Array.from({ length: across }, (_, x) => drawCell(place(x, y), dense))));
    table.append(make("thead", {}, make("tr", {}, make("td", { class: "outside" }), ...heads)), make("tbody", {}, ...rows));
    table.querySelector("td[data-cell]:not(.outside)")?.setAttribute("tabindex", 0);
    if (dense) table.style.setProperty("--size", `${size}px`);
    return table.querySelector("td[data-cell]:not(.outside)") && table;
  }
  function draw() {
    const board = find("scroll"), sizesOf = data.facets.map(axis => sizes[axis]).filter((_, nth) => data.facets[nth] !== repeated);
    const which = data.facets.filter(axis => axis !== repeated), count = sizesOf.reduce((a, b) => a * b, 1);
    const each = sizeOf(data.x) * sizeOf(data.y), most = state.all ? count : Math.max(1, Math.floor(MOST / each));
    const size = Math.max(4, Math.floor((board.clientWidth - 70) / sizeOf(data.x)));
    const panels = Array.from({ length: Math.min(count, most) }, (_, nth) => {
      const facet = {};
      for (const [at, axis] of [...which.entries()].reverse()) { facet[axis] = nth % sizesOf[at]; nth = Math.floor(nth / sizesOf[at]); }
      return drawPanel(facet, size);
    }).filter(Boolean);
    board.style.setProperty("--columns", sizesOf.at(-1) ?? 1);
    const head = 1 + .5 * Math.min(18, Math.max(0, ...data.y < 0 ? [] : axes[data.y].values.map(text => text.length))), columns = sizesOf.at(-1) ?? 1;
    const cell = Math.max(2.75, Math.min(4.4, ((board.clientWidth / 16 - 1) / columns - head - .8) / sizeOf(data.x))); // rem
    board.style.setProperty("--head", `${head}rem`);
    board.style.setProperty("--panel", Math.max(sizeOf(data.x), sizeOf(data.y)) > DENSE ? "100%" : `${cell * sizeOf(data.x) + head}rem`);
    const more = make("button", { type: "button" }, `Draw the other ${count - most} panels`);
    more.addEventListener("click", () => { state.all = true; draw(); });
    board.replaceChildren(...panels, ...(count > most ? [more] : []));
    drawLegend();
  }
  function drawLegend() {
    const item = (style, text, name = "", letter = "") => make("span", {}, make("i", { class: name, style }, letter), text);
    const known = cells.limit.filter((limit, cell) => limit >= 0 && cells.value[cell] !== null);
    const share = at => known.filter(limit => limit === at).length;
    const warned = at => cells.limit.filter((limit, cell) => limit === at && cells.value[cell] !== null && flagsOf(cell).some(flag => flag.grade !== "note")).length;
    const counts = at => warned(at) ? `${share(at) - warned(at)} + ${warned(at)} with a warning` : share(at);
    const bar = (colours, from, to) => [make("span", {}, from), make("span", { class: "bar", style: `background:linear-gradient(90deg,${colours.map(part => `rgb(${part})`)})` }), make("span", {}, to)];
    const colours = state.show === "limit"
      ? limits.map(([name, , fill, letter], at) => [share(at), item(`background:${fill};color:${inkOn(rgb(fill.slice(1)))}`, `${name} (${counts(at)})`, "", letter)]).filter(([count]) => count).sort((a, b) => b[0] - a[0]).map(([, shown]) => shown)
      : state.show === "ratio" ? bar([[33, 102, 172], [247, 247, 247], [178, 24, 43]], "half as high as measured", "twice as high: fitted over measured") : bar(VIRIDIS, "0 ", `${top} Gbit/s`);
    const grades = new Set(flags.filter(flag => cells.flags.some(value => value & flag.mask)).map(flag => flag.grade));
    find("legend").replaceChildren(...[
      ...colours,
      grades.has("warning") ? item("", "hatched: a warning, not counted in the findings", "warning") : null,
      grades.has("invalid") ? item("", "crossed: invalid", "invalid") : null,
      points.value.includes(null) ? item("", "failed or not measured", "hatched") : null,
    ].filter(Boolean));
  }

  // ---- a cell

  const series = Uint8Array.from(atob(data.series.bytes), sign => sign.charCodeAt(0));
  const messages = new Map(cells.message), causes = new Map(data.transfers.message);
  const starts = [0];
  for (const count of data.transfers.counts) starts.push(starts.at(-1) + Math.min(count, data.transfers.most));
  const shell = text => /^[A-Za-z0-9_./=@:,+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

  /** The shares of the cell's time as a bar; the words below it name each. */
  function evidence(cell) {
    const shares = cells.shares?.[cell] ?? [];
    if (!shares.length) return [];
    const told = shares.map(([limit, percent]) => `${limits[limit][0]} ${percent} %`);
    return [
      make("div", { class: "shares", role: "img", "aria-label": `Shares of the cell's time: ${told.join(", ")}` }, ...shares.map(([limit, percent]) => {
        const [name, , fill, letter] = limits[limit];
        return make("span", { style: `flex:${percent} 0 0;background:${fill};color:${inkOn(rgb(fill.slice(1)))}`, title: `${name} ${percent} %` }, percent >= 9 ? letter : "");
      })),
      make("p", { class: "soft" }, `Shares of its time: ${told.join(", ")}.`),
    ];
  }
  function advice(cell) {
    if (cells.limit[cell] < 0) return [];
    const bound = limit => {
      const share = cells.shares?.[cell].find(([at]) => at === limit)?.[1];
      return ["Limited by ", make("strong", {}, limits[limit][0]), `${share ? ` for ${share} % of its time` : ""}: ${limits[limit][1]}. `];
    };
    const advised = cells.advice.texts[cells.advice.at[cell]];
    return [
      make("p", {}, ...[cells.limit[cell], cells.second[cell]].filter(limit => limit >= 0).flatMap(bound)),
      advised && make("p", { class: "advice" }, advised),
    ];
  }
  function chart(cell) {
    const { points, step, gap } = data.series, levels = series.subarray(cell * points, (cell + 1) * points);
    const last = levels.findLastIndex(level => level < gap) + 1;
    if (!last) return make("p", { class: "soft" }, data.series.absent);
    const high = amount(data.series.top[cell]) || 1; // a cell that moved nothing has its line at zero
    const W = 420, H = 170, left = 42, bottom = 28, above = 8, wide = W - left - 8, tall = H - bottom - above;
    const x = time => left + wide * time / (last * step), y = value => above + tall * (1 - value / high);
    const known = Array.from({ length: last }, (_, at) => at).filter(at => levels[at] < gap); // without gaps, or a clock that ticks more slowly
    const spots = known.map(at => `${x((at + .5) * step).toFixed(1)} ${y(levels[at] / (gap - 1) * high).toFixed(1)}`);
    const path = spots.length > 1 ? `M${spots.join("L")}` : `M${x(known[0] * step).toFixed(1)} ${spots[0].split(" ")[1]}H${x(last * step).toFixed(1)}`;
    const warmup = amount(cells.figures.find(figure => figure.key === "warmup")?.values[cell] ?? null);
    const mean = amount(cells.value[cell]), seconds = `${Math.round(last * step)} s`;
    return make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Goodput over ${seconds}, at most ${data.series.top[cell]} Gbit/s` },
      warmup ? make("rect", { class: "warmup", x: left, y: above, width: Math.min(wide, x(warmup) - left), height: tall }) : null,
      make("line", { class: "axis", x1: left, x2: W - 8, y1: above + tall, y2: above + tall }),
      make("line", { class: "axis", x1: left, x2: left, y1: above, y2: above + tall }),
      mean !== null ? make("path", { class: "mean", d: `M${left} ${y(Math.min(mean, high))}H${W - 8}` }) : null,
      make("path", { class: "line", d: path }),
      make("text", { x: left - 5, y: above + 8, "text-anchor": "end" }, data.series.top[cell]),
      make("text", { x: left - 5, y: above + tall, "text-anchor": "end" }, "0"),
      make("text", { x: left, y: H - 10 }, "0 s"),
      make("text", { x: W - 8, y: H - 10, "text-anchor": "end" }, seconds),
      make("text", { x: left + wide / 2, y: H - 10, "text-anchor": "middle" }, `goodput (Gbit/s), means of ${data.series.step_text} s`));
  }
  function transfersOf(cell) {
    const { transfers } = data, count = transfers.counts[cell];
    if (!count) return make("p", { class: "soft" }, "No single transfers are recorded.");
    const rows = [];
    for (let row = starts[cell]; row < starts[cell + 1]; row++) {
      rows.push(make("tr", {}, ...[transfers.stream, transfers.start, transfers.end, transfers.rate].map(column => make("td", { class: "number" }, `${column[row] ?? ""}`)),
        make("td", {}, transfers.ok[row] ? "" : `failed${causes.has(row) ? `: ${causes.get(row)}` : ""}`)));
    }
    const head = ["stream", "from (s)", "to (s)", "Gbit/s", ""].map(text => make("th", { scope: "col", class: text && "number" }, text));
    return make("details", {}, make("summary", {}, `${count} transfers${rows.length < count ? `, the first ${rows.length} of them` : ""}`),
      make("div", { class: "table", tabindex: 0 }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
  }
  function remeasured(cell) {
    if (!again || !again.cell[cell]) return [];
    const deployment = again.deployment[cell], path = `${again.deployments[deployment]}/${again.cell[cell]}`;
    const command = `rm -f ${shell(`${again.folder}/${path}.json`)} && ${again.command}`;
    const copy = make("button", { type: "button" }, "Copy");
    copy.addEventListener("click", async () => { try { await navigator.clipboard.writeText(command); copy.textContent = "Copied"; } catch { copy.textContent = "Select and copy it"; } });
    const link = (to, text) => make("p", {}, make("a", { href: to.split("/").map(encodeURIComponent).join("/") }, text));
    return [make("details", {}, make("summary", {}, "Measure it again"), make("pre", { tabindex: 0 }, command), copy),
      again.logs[deployment] && link(`logs/${again.deployments[deployment]}/`, "logs of its deployment"),
      again.files[cell] && link(`cells/${path}.json`, "the cell's file")];
  }
  function open(cell, focus) {
    const at = coordinates(cell), list = flagsOf(cell), panel = find("cell"), point = pointAt(at);
    state.chosen = cell;
    const own = { low: cells.low[cell], high: cells.high[cell] };
    let others = null;
    if (sizeOf(repeated) > 1) {
      const select = make("select", {}, ...axes[repeated].values.map((text, nth) => make("option", { value: nth, selected: nth === at[repeated] ? "" : null }, text)));
      select.addEventListener("change", () => { at[repeated] = +select.value; open(flat(at)); panel.querySelector("select").focus(); });
      others = make("p", {}, make("label", {}, "repetition ", select), point.mean === null ? "" : ` of a mean of ${point.mean} Gbit/s`);
    }
    panel.replaceChildren(...[
      make("h3", {}, named(at) || "The cell"), others,
      cells.value[cell] === null
        ? make("p", { class: "value" }, ["not measured", "without a throughput", "failed"][cells.status[cell]])
        : make("p", { class: "value" }, `${cells.value[cell]} `, make("small", {}, `Gbit/s${own.low !== null && own.high !== null ? `, interval ${interval(own)}` : ""}${points.fitted ? `; fitted ${points.fitted[point.number]}` : ""}`)),
      messages.has(cell) ? make("pre", {}, messages.get(cell)) : null,
      ...advice(cell), ...evidence(cell),
      list.length ? make("ul", {}, ...list.map(flag => make("li", { class: flag.grade }, `${flag.grade}: ${flag.meaning}`))) : make("p", { class: "soft" }, "No flags."),
      chart(cell), transfersOf(cell),
      make("details", {}, make("summary", {}, "figures"), make("table", { class: "plain" }, make("tbody", {}, ...cells.figures.filter(figure => figure.values[cell] !== null).map(figure =>
        make("tr", {}, make("th", { scope: "row" }, figure.name), make("td", { class: "number" }, `${figure.values[cell]} ${figure.units}`)))))),
      ...remeasured(cell),
    ].filter(Boolean));
    for (const old of document.querySelectorAll(".map .chosen")) old.classList.remove("chosen");
    tdOf(cell)?.classList.add("chosen");
    if (focus) { panel.focus({ preventScroll: true }); panel.scrollIntoView({ block: "nearest" }); }
  }
  const tdOf = cell => document.querySelector(`.map td[data-cell="${flat(coordinates(cell).map((place, axis) => axis === repeated ? 0 : place))}"]`);

  // ---- what people do

  const board = find("scroll"), tip = find("tip");
  const target = event => event.target.closest?.("td[data-cell]");
  const spot = td => coordinates(+td.dataset.cell);
  function tell(td) {
    const box = td.getBoundingClientRect();
    tip.textContent = said(spot(td), pointAt(spot(td)));
    tip.hidden = false;
    tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, box.left + box.width / 2 - tip.offsetWidth / 2))}px`;
    tip.style.top = `${box.top > tip.offsetHeight + 12 ? box.top - tip.offsetHeight - 8 : box.bottom + 8}px`;
  }
  const hush = () => { tip.hidden = true; };
  function choose(td, focus) {
    const point = pointAt(spot(td));
    hush();
    if (point.all.length && !(point.all.includes(state.chosen) && !focus)) open(point.well[0] ?? point.all[0], focus);
  }
  board.addEventListener("pointerover", event => { const td = target(event); if (td && event.pointerType !== "touch") tell(td); else hush(); });
  board.addEventListener("pointerleave", hush);
  board.addEventListener("focusin", event => {
    const td = target(event);
    if (!td) return;
    td.setAttribute("aria-label", said(spot(td), pointAt(spot(td))).replaceAll("\n", "; "));
    choose(td, false);
  });
  addEventListener("scroll", hush, { passive: true });
  board.addEventListener("click", event => { const td = target(event); if (td) choose(td, true); });
  board.addEventListener("keydown", event => {
    const td = target(event);
    if (!td) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(td, true); return; }
    if (event.key === "Escape") { hush(); return; }
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], Home: [-1e9, 0], End: [1e9, 0] }[event.key] ?? [0, 0];
    if (!dx && !dy) return;
    event.preventDefault();
    const at = spot(td), move = (axis, by) => { if (axis >= 0) at[axis] = Math.max(0, Math.min(sizes[axis] - 1, at[axis] + by)); };
    move(data.x, dx);
    move(data.y, dy);
    const next = tdOf(flat(at));
    td.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  find("cell").addEventListener("keydown", event => { if (event.key === "Escape") board.querySelector(".chosen")?.focus(); });
  document.querySelector(".findings").addEventListener("click", event => {
    const button = event.target.closest("button"), pressed = button?.getAttribute("aria-pressed") === "true";
    if (!button) return;
    for (const other of document.querySelectorAll(".findings button")) other.setAttribute("aria-pressed", other === button && !pressed);
    state.shown = new Set(pressed ? [] : button.dataset.cells.split(" ").map(Number));
    if (state.shown.size) state.all = true;
    draw();
    if (pressed) return;
    if (state.shown.size === 1) open([...state.shown][0]);
    find("map").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  });

  // ---- plans: for each RTT the settings, cheapest first, that are each sure to reach more than all cheaper ones

  function answer() {
    const form = find("plan"), target = +form.elements.target.value, rtt = +form.elements.rtt.value, told = find("planned");
    const at = plans.rtts.findIndex(known => known >= rtt);
    if (!(target > 0) || !(rtt >= 0)) { told.textContent = "Type a throughput in Gbit/s and an RTT in ms."; return; }
    if (at < 0) { told.textContent = `The data end at an RTT of ${plans.rtts.at(-1)} ms: tpcsweep plan extrapolates.`; return; }
    const place = plans.others.reduce((sum, other, nth) => sum * other.values.length + +form.elements[`other${nth}`].value, 0);
    const table = place * plans.rtts.length + at, settings = plans.tables[table], best = settings.find(setting => setting[0] >= target), most = settings.at(-1);
    const setting = best ?? most, sure = `reached with a probability of ${plans.probability}`;
    if (!setting) { told.textContent = "The model has no prediction for this RTT."; return; }
    told.replaceChildren(make("p", {}, make("strong", {}, best ? `streams ${setting[5]}, cores ${setting[3]}, origins ${setting[4]}` : `Not ${sure} by any setting inside the data`),
      best ? ` at RTT ${plans.rtts[at]} ms: ${setting[1]} Gbit/s is ${sure}; expected ${setting[2]}.` : `: ${setting[1]} Gbit/s at most, with streams ${setting[5]}, cores ${setting[3]}, origins ${setting[4]}, at RTT ${plans.rtts[at]} ms. ${plans.measured[table]}`));
  }
  if (plans) { find("plan").addEventListener("input", answer); find("plan").addEventListener("submit", event => event.preventDefault()); answer(); }

  // ---- the surface: the library is a text in this page until it is asked for

  function drawSurface() {
    const box = find("surface"), told = find("drawn"), { x: across, y: up } = data;
    if (sizeOf(across) < 2 || sizeOf(up) < 2) { told.textContent = "A surface needs two axes with at least two values."; return; }
    const style = getComputedStyle(document.body), line = getComputedStyle(document.documentElement).getPropertyValue("--line");
    const chosen = coordinates(state.chosen ?? 0), place = (x, y) => chosen.map((at, axis) => axis === across ? x : axis === up ? y : at);
    const grid = Array.from({ length: sizes[up] }, (_, y) => Array.from({ length: sizes[across] }, (_, x) => pointAt(place(x, y))));
    const ticks = axis => { const step = Math.ceil(sizes[axis] / 10), at = axes[axis].values.map((_, nth) => nth).filter(nth => nth % step === 0); return { tickvals: at, ticktext: at.map(nth => axes[axis].values[nth]) }; };
    const axis = which => ({ title: { text: axes[which].label }, gridcolor: line, zerolinecolor: line, ...ticks(which) });
    const escaped = text => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("\n", "<br>");
    const texts = grid.map((row, y) => row.map((point, x) => escaped(said(place(x, y), point))));
    const z = grid.map(row => row.map(point => amount(points.fitted ? points.fitted[point.number] : point.mean)));
    const patch = (x, y) => [z[y][x], z[y][x + 1], z[y + 1]?.[x], z[y + 1]?.[x + 1]].every(corner => Number.isFinite(corner));
    box.hidden = !z.some((row, y) => row.some((_, x) => patch(x, y)));
    if (box.hidden) { told.textContent = "A surface needs four neighbouring cells with a throughput."; return; }
    if (!window.Plotly) document.body.append(make("script", {}, find("plotly").textContent));
    const known = grid.flatMap((row, y) => row.map((point, x) => ({ x, y, z: amount(point.mean), text: texts[y][x] }))).filter(one => one.z !== null);
    const measured = points.fitted ? [{ type: "scatter3d", mode: "markers", ...Object.fromEntries(["x", "y", "z", "text"].map(key => [key, known.map(one => one[key])])), marker: { size: 4, color: style.color }, hovertemplate: "%{text}<extra>measured</extra>" }] : [];
    box.dataset.drawn = "yes";
    const far = Math.max(1, box.clientHeight / box.clientWidth); // on a phone it is as wide as it was high
    try {
      window.Plotly.react(box, [{
        type: "surface", z, colorscale: "Viridis", cmin: 0, cmax: highest, connectgaps: false, opacity: points.fitted ? .85 : 1,
        text: texts, hovertemplate: "%{text}<extra></extra>", colorbar: { title: { text: "Gbit/s" }, thickness: 12 }, showscale: innerWidth > 700,
      }, ...measured], {
        margin: { l: 0, r: 0, t: 44, b: 0 }, paper_bgcolor: "rgba(0,0,0,0)", modebar: { bgcolor: "rgba(0,0,0,0)", color: style.color }, font: { color: style.color, family: style.fontFamily },
        scene: { xaxis: axis(across), yaxis: axis(up), zaxis: { title: { text: "Gbit/s" }, gridcolor: line, zerolinecolor: line, range: [0, highest] }, camera: { eye: { x: -1.5 * far, y: -1.5 * far, z: .9 * far }, center: { x: 0, y: 0, z: -.2 } } },
      }, { responsive: true, displaylogo: false });
      told.textContent = `${points.fitted ? "surface: fitted; dots: measured; " : ""}${named(chosen, several.filter(axis => axis !== across && axis !== up))}`;
    } catch (error) { told.textContent = `This browser cannot draw it: ${error.message}`; }
  }
  find("draw").addEventListener("click", drawSurface);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (find("surface").dataset.drawn) drawSurface(); });

  // It begins with the highest throughput that carries no warning.
  const clean = cells.value.map((text, cell) => flagsOf(cell).some(flag => flag.grade !== "note") ? null : text);
  const best = clean.some(text => text !== null) ? clean.indexOf(largest(clean)) : cells.value.findIndex(text => text !== null);
  drawChoices();
  draw();
  if (best >= 0) open(best);
}
// What was found is read first: it is painted before the map is made.
requestAnimationFrame(() => setTimeout(begin));
