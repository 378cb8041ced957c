// What people do on the page, and its start.

/** Parts of `places` in which keys move, and by how many values. */
const MOVES = {
  ArrowLeft: ["x", -1],
  ArrowRight: ["x", 1],
  ArrowUp: ["y", 1],
  ArrowDown: ["y", -1],
  Home: ["x", -Infinity],
  End: ["x", Infinity],
};

function drawAll() {
  drawControls();
  drawPicture();
  drawTable();
  openCell();
}

function drawEverything() {
  drawAll();
  for (const box of document.querySelectorAll(".effects")) {
    const changes = JSON.parse(box["dataset"].changes);
    const wanted = Number(box["dataset"].wanted) || null;
    box.replaceChildren(drawEffects(changes, box.clientWidth, wanted));
  }
  drawLinks();
}

/** A click on a link to a cell opens it in its panel. @param {MouseEvent} event */
function followLink(event) {
  const href = event.target["closest"]?.("a")?.getAttribute("href") ?? "";
  if (!href.startsWith("#cell=") || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  go({ cell: decodeURIComponent(href.slice("#cell=".length)), repetition: null });
  showPanel();
}

function showPanel() {
  find("cell").focus({ preventScroll: true });
  find("cell").scrollIntoView({ block: "nearest" });
}

/** Draw everything; where the panel stands below the picture, a link to a cell leads there. */
function start() {
  drawEverything();
  if (state.cell && getComputedStyle(find("cell")).position === "static") showPanel();
}

/** The setting that a key leads to along an axis. */
function neighbour(row, axis, by) {
  const clamped = place => Math.max(0, Math.min(sizes[axis] - 1, place + by));
  const at = row.at.map((place, one) => (one === axis ? clamped(place) : place));
  return grid[flattened(at, pointStrides)];
}

/** @param {KeyboardEvent} event */
function pressKey(event) {
  if ([" ", "Enter"].includes(event.key)) {
    event.preventDefault();
    event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  }
  const row = chosen();
  const [key, by] = MOVES[event.key] ?? [];
  if (!row || !key) return;
  event.preventDefault();
  const next = neighbour(row, places()[key], by);
  if (isInside(next)) go({ cell: next.address, repetition: null });
  linkOf(chosen())?.focus();
}

/** A finding's button outlines its cells. @param {MouseEvent} event */
function pressFinding(event) {
  const button = event.target["closest"]("button");
  if (!button) return;
  go({ finding: button.value === state.finding ? null : button.value });
  if (!state.finding) return;
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  find("map").scrollIntoView({ behavior: isStill ? "auto" : "smooth" });
}

function listen() {
  document.addEventListener("click", followLink);
  find("picture").addEventListener("keydown", pressKey);
  find("cell").addEventListener("keydown", event => {
    if (event.key === "Escape") linkOf(chosen())?.focus();
  });
  find("more").addEventListener("click", () => go({ rows: 10 * mostRows() }));
  document.querySelector(".findings").addEventListener("click", pressFinding);
  addEventListener("hashchange", () => {
    readState();
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawEverything);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width === innerWidth) return; // a phone's address bar changes the height
    width = innerWidth;
    drawEverything();
  });
}

function startPlanner() {
  if (!plans) return;
  find("plan").addEventListener("input", answer);
  find("plan").addEventListener("submit", event => event.preventDefault());
  answer();
}

readState();
listen();
startPlanner();
requestAnimationFrame(() => setTimeout(start)); // text is painted before charts are made
