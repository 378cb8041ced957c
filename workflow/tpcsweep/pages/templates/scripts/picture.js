// The picture of all settings, and the outlines in it.

const MOST_DRAWN = 20000; // settings

/** Links of the picture by their targets. @type {Map<string, any>} */
let links = new Map();

function linkOf(row) {
  return links.get(linkTo(row));
}

/** Links of a chart by their targets. The label of a mark becomes that of its link. */
function linksOf(chart) {
  return new Map(
    [...chart.querySelectorAll("a")].map(link => {
      const mark = link.firstElementChild;
      link.setAttribute("tabindex", "-1");
      link.setAttribute("aria-label", mark.getAttribute("aria-label").replaceAll("\n", "; "));
      mark.removeAttribute("aria-label");
      return [link.getAttribute("href"), link];
    }),
  );
}

/** The picture of settings, and its legend. @param {Setting[]} rows @returns {Record<string, any>} */
function pictureOf(rows) {
  if (!rows.length) return { chart: d3.create("p").text("No setting passes the filters.").node(), legend: [] };
  const draw = state.view === "lines" ? drawLines : drawMap;
  return draw(rows, axesInPlaces(), find("picture").clientWidth);
}

function drawPicture() {
  const all = filtered();
  const { chart, legend } = pictureOf(all.slice(0, MOST_DRAWN));
  chart.classList.add(state.view);
  chart.addEventListener("input", () => chart.classList.toggle("pointed", chart.value !== null));
  find("picture").replaceChildren(chart);
  find("legend").replaceChildren(...legend);
  find("drawn").textContent = drawnText(all.length);
  links = linksOf(chart);
  outline();
}

/** Which settings the picture shows, if not all. @param {number} count of those that pass the filters */
function drawnText(count) {
  const texts = [];
  if (count < settings.length) texts.push(`${count} of ${settings.length} settings, by the filters of the table.`);
  if (count > MOST_DRAWN) texts.push(`The first ${MOST_DRAWN} of them are drawn: choose others with the filters.`);
  return texts.join(" ");
}

/** Outline the settings of the chosen finding, and name the marks that the picture has. */
function outline() {
  const held = ofFinding();
  for (const button of buttons()) button.setAttribute("aria-pressed", `${button.value === state.finding}`);
  for (const row of settings) linkOf(row)?.classList.toggle("shown", held?.has(row.point) ?? false);
  for (const text of find("marks").querySelectorAll("[data-of]")) {
    text.hidden = !find("picture").querySelector(text.dataset.of);
  }
}

/** The chosen finding's settings, outlined in the picture and alone in the table. */
function drawFinding() {
  outline();
  drawTable();
}

/** Outline the chosen setting in the picture, above its neighbours, and in the matrix of links. @param {Setting} row */
function outlineChosen(row) {
  const link = linkOf(row);
  outlineLink(find("picture"), link);
  if (data.links) outlineLink(find("links"), fieldOf(row));
  if (state.view !== "lines" && link !== document.activeElement) link?.parentNode.append(link);
}

/** Outline one link of a chart, and let Tab reach it alone, or the first one. */
function outlineLink(box, link) {
  for (const old of box.querySelectorAll(".chosen, [tabindex='0']")) {
    old.classList.remove("chosen");
    old.setAttribute("tabindex", "-1");
  }
  link?.classList.add("chosen");
  (link ?? box.querySelector("a"))?.setAttribute("tabindex", "0");
}
