// The picture of all settings, the controls of what it shows, and the outlines in it.

const MOST_DRAWN = 20000; // settings

/** Links of the picture by their targets. @type {Map<string, any>} */
let links = new Map();

function linkOf(row) {
  return links.get(linkTo(row));
}

function viewChoice({ key, label }) {
  const box = make("input", { type: "radio", name: "view", value: key, checked: key === view().key && "" });
  box.addEventListener("change", () => {
    go({ view: key });
    document.querySelector("#choices input:checked")["focus"]();
  });
  return make("label", { class: "radio" }, box, ` ${label}`);
}

/** Selects that put any axes across, up or on lines, and on columns of panels. */
function placeChoices() {
  if (several.length < 2) return [];
  const at = places();
  const names = several.map(axis => [axes[axis].key, labelOf(axis)]);
  const none = ["none", "–"];
  const choice = (key, label, options) => {
    const { key: value, comment } = axes[at[key]] ?? { key: "none", comment: "" };
    return select(key, label, options, value, comment);
  };
  return [
    choice("x", "x", names),
    choice("y", view().key === "lines" ? "lines" : "up", [...names, none]),
    choice("columns", "panels across", [...names, none]),
  ];
}

function filterChoices() {
  const all = ["", "all"];
  const ofAxis = axis => {
    const options = axes[axis].values.map(text => [text, text]);
    return select(filterOf(axis), labelOf(axis), [all, ...options], state[filterOf(axis)] ?? "", axes[axis].comment);
  };
  const held = d3.union(settings.map(row => row.limit).filter(limit => limit >= 0));
  const ofLimit = [...held].map(limit => [limits[limit][0], limits[limit][0]]);
  const ofFlag = flags.map(flag => [flag.words, flagText(flag)]);
  return [
    ...several.map(ofAxis),
    select("limit", "limit", [all, ...ofLimit], state.limit ?? ""),
    select("flag", "flag", [all, ["none", "no warning"], ...ofFlag], state.flag ?? ""),
  ];
}

function drawControls() {
  const legend = make("legend", { class: "hidden" }, "picture");
  find("choices").replaceChildren(make("fieldset", {}, legend, data.views.map(viewChoice)), ...placeChoices());
  find("filters").replaceChildren(...filterChoices());
}

function drawPicture() {
  const all = filtered();
  const { chart, legend } = pictureOf(all.slice(0, MOST_DRAWN));
  find("picture").replaceChildren(chart);
  find("legend").replaceChildren(...legend);
  find("drawn").textContent = drawnText(all.length);
  links = new Map([...chart.querySelectorAll("a")].map(link => [link.getAttribute("href"), link]));
  links.forEach(prepareLink);
  const first = links.values().next().value;
  if (!chosen() || !linkOf(chosen())) first?.setAttribute("tabindex", "0");
  outline();
}

/** @param {Setting[]} rows */
function pictureOf(rows) {
  if (!rows.length) return { chart: make("p", {}, "No setting passes the filters."), legend: [] };
  const { key, label } = view();
  const room = find("picture").clientWidth;
  const drawn = key === "lines" ? drawLines(rows, places(), room) : drawMap(rows, places(), room, key);
  drawn.chart.setAttribute("aria-label", `Throughput, ${label}`);
  return drawn;
}

/** Which settings the picture shows, if not all. @param {number} count of those that pass the filters */
function drawnText(count) {
  const texts = [];
  if (count < settings.length) texts.push(`${count} of ${settings.length} settings, by the filters of the table.`);
  if (count > MOST_DRAWN) texts.push(`The first ${MOST_DRAWN} of them are drawn: choose others with the filters.`);
  return texts.join(" ");
}

/** Only the chosen cell's link is reached by Tab; the label of its mark becomes that of the link. */
function prepareLink(link) {
  const mark = link.firstElementChild;
  link.setAttribute("tabindex", "-1");
  link.setAttribute("aria-label", mark.getAttribute("aria-label").replaceAll("\n", "; "));
  mark.removeAttribute("aria-label");
}

/** Outline the cells of the chosen finding. */
function outline() {
  /** @type {HTMLButtonElement[]} */
  const buttons = [...document.querySelectorAll(".findings button")].map(button => /** @type {any} */ (button));
  const pressed = buttons.find(button => button.value === state.finding);
  for (const button of buttons) button.setAttribute("aria-pressed", `${button === pressed}`);
  const held = new Set(pressed ? pressed.dataset.cells.split(" ").map(Number) : []);
  for (const row of settings)
    linkOf(row)?.classList.toggle("shown", held.size > 0 && cellsOf(row).some(cell => held.has(cell)));
}

/** Outline the link of the chosen setting, and let Tab reach it alone. */
function outlineChosen(row) {
  for (const old of find("picture").querySelectorAll(".chosen, [tabindex='0']")) {
    old.classList.remove("chosen");
    old.setAttribute("tabindex", "-1");
  }
  const link = linkOf(row);
  link?.classList.add("chosen");
  link?.setAttribute("tabindex", "0");
  // Its outline lies above its neighbours.
  if (view().key !== "lines" && link !== document.activeElement) link?.parentNode.append(link);
}
