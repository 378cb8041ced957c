// What people do on the page, and its start.

/** Parts of `axesInPlaces` in which keys move, and by how many values. */
const MOVES = {
  ArrowLeft: ["x", -1],
  ArrowRight: ["x", 1],
  ArrowUp: ["y", 1],
  ArrowDown: ["y", -1],
  Home: ["x", -Infinity],
  End: ["x", Infinity],
};

function drawAll() {
  fillForms();
  drawPicture();
  drawTable();
  openCell();
}

function drawEverything() {
  for (const box of document.querySelectorAll(".effects")) {
    const changes = JSON.parse(box["dataset"].changes);
    box.replaceChildren(drawEffects(changes, box.clientWidth, Number(box["dataset"].wanted) || null));
  }
  drawLinks();
  drawAll();
}

/** The setting, and its repetition, that a pressed link leads to, or the link in the pressed row of the table. */
function linkedBy(target) {
  const row = getSelection().isCollapsed && target.closest("#table tbody tr");
  const href = (target.closest("a") ?? (row && row.querySelector("a")))?.getAttribute("href") ?? "";
  const linked = new URLSearchParams(href.startsWith("#cell=") ? href.slice(1) : "");
  return { cell: linked.get("cell"), repetition: linked.get("repetition") };
}

/** A press opens a setting in its panel; beside marks of the picture the nearest one. @param {MouseEvent} event */
function openPressed(event) {
  if (event.ctrlKey || event.metaKey) return;
  const linked = linkedBy(event.target);
  if (linked.cell) event.preventDefault();
  const isPointed = event.detail > 0 && find("picture").contains(event.target);
  const nearest = () => find("picture").firstElementChild.value?.address;
  // Plot looks for the nearest setting once in a frame. Of marks that cover each other, the press is on the upper one.
  if (isPointed && !linked.cell) requestAnimationFrame(() => openSetting({ cell: nearest(), repetition: null }));
  else openSetting(linked);
}

/** Open a setting in its panel; filters that hide it end. */
function openSetting(linked) {
  if (!linked.cell) return;
  const isHidden = !filtered().includes(byAddress.get(linked.cell));
  go(isHidden ? { ...unfiltered(), ...linked } : linked);
  showPanel();
}

/** What shows all settings again. */
function unfiltered() {
  return Object.fromEntries([...find("filters").elements].map(({ name }) => [name, null]));
}

/** Move to the panel; the page scrolls only if most of the panel's head is out of sight. */
function showPanel() {
  find("cell").focus({ preventScroll: true });
  find("cell").scrollTop = 0;
  const { top, bottom } = find("cell").getBoundingClientRect();
  if (top > 0.7 * innerHeight || bottom < 0.3 * innerHeight) find("cell").scrollIntoView({ block: "start" });
}

/** The next setting of the sweep along an axis, or the last one before its end. */
function neighbour(row, axis, by) {
  const isAlong = other => other.at.every((place, nth) => nth === axis || place === row.at[nth]);
  const ahead = other => Math.sign(by) * (other.at[axis] - row.at[axis]);
  const along = settings.filter(other => ahead(other) > 0 && isAlong(other));
  return d3.sort(along, ahead)[Math.min(along.length, Math.abs(by)) - 1] ?? row;
}

/**
 * Keys lead to other settings, in the picture and in the matrix of links.
 * @param {KeyboardEvent} event @param {Pick<AxesInPlaces, "x" | "y">} axesAt
 * @param {(row: Setting) => any} markOf @param {boolean} isMap
 */
function pressKey(event, axesAt, markOf, isMap) {
  if ([" ", "Enter"].includes(event.key)) {
    event.preventDefault();
    event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  }
  const row = chosen();
  const [key, by] = MOVES[event.key] ?? [];
  if (!row || !key) return;
  event.preventDefault();
  const axis = axesAt[key];
  if (axis < 0) return;
  const isTurned = key === "y" && isMap && axes[axis].words; // its first value is on top
  go({ cell: neighbour(row, axis, isTurned ? -by : by).address, repetition: null });
  markOf(chosen())?.focus();
}

/** A finding's button outlines its cells; none of them is filtered out. @param {string} pressed */
function pressFinding(pressed) {
  const finding = pressed === state.finding ? null : pressed;
  go(finding ? { ...unfiltered(), finding } : { finding });
  if (state.finding) find("map").scrollIntoView();
}

function listen() {
  document.addEventListener("click", openPressed);
  // Plot would keep the tip of a pressed setting, and show no others.
  find("picture").addEventListener("pointerdown", event => event.stopPropagation(), true);
  find("picture").addEventListener("keydown", event => pressKey(event, axesInPlaces(), linkOf, state.view !== "lines"));
  find("cell").addEventListener("keydown", event => {
    if (event.key === "Escape") linkOf(chosen())?.focus();
  });
  const [y, x] = LINK;
  find("links")?.addEventListener("keydown", event => pressKey(event, { x, y }, fieldOf, true));
  for (const box of ["choices", "filters", "cell"]) find(box).addEventListener("change", choose);
  find("table").addEventListener("click", sort);
  find("more").addEventListener("click", () => go({ rows: 10 * mostRows() }));
  for (const button of buttons()) button.addEventListener("click", () => pressFinding(button.value));
  addEventListener("hashchange", () => {
    if (location.hash && !location.hash.includes("=")) return; // it leads to a section
    const { flag } = state;
    readState();
    drawAll();
    if (state.flag && state.flag !== flag) find("map").scrollIntoView();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawEverything);
}

function startPlanner() {
  if (!plans) return;
  find("plan").addEventListener("input", answer);
  find("plan").addEventListener("submit", event => event.preventDefault());
  answer();
}

/** Draw everything; where the panel stands below the picture, a link to a cell leads there. */
function start() {
  drawForWidths(drawEverything);
  if (state.cell !== data.start.cell && getComputedStyle(find("cell")).position === "static") showPanel();
}

readState();
listen();
startPlanner();
requestAnimationFrame(() => setTimeout(start)); // text is painted before charts are made
