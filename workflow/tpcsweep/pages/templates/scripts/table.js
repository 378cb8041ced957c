// The table of all settings that pass the filters.

/** What columns are sorted by. @type {Record<string, (row: Setting) => number>} */
const ORDERS = {
  ...Object.fromEntries(axes.map(({ key }, axis) => [key, row => row.at[axis]])),
  throughput: row => row.mean ?? NaN, // the unknown comes last in both orders
  interval: row => row.half ?? NaN,
  limit: row => row.limit,
  flags: row => row.grade,
};

/** Fill a table with texts, and return its rows. @param {string} table selector @param {any[][]} rows */
function fillTable(table, rows) {
  const filled = d3.select(`${table} tbody`).selectAll("tr").data(rows).join("tr");
  const texts = filled.selectAll("td").data(texts => texts);
  texts.join("td").text(text => text);
  return filled;
}

/** Texts of a setting in the columns of the table. */
function textsOf(row) {
  const values = axes.map((_, axis) => valueOf(row, axis));
  const limit = limits[row.limit]?.name ?? "";
  return [...values, rateOf(row), intervalOf(points, row.point), limit, points.flags.texts[points.flags.at[row.point]]];
}

function drawTable() {
  const [key, order] = (state.sort ?? "").split(" ");
  const held = ofFinding();
  const all = filtered().filter(row => held?.has(row.point) ?? true);
  const by = order === "down" ? d3.descending : d3.ascending;
  const sorted = key in ORDERS ? d3.sort(all, (a, b) => by(ORDERS[key](a), ORDERS[key](b))) : all;
  const rows = sorted.slice(0, mostRows());
  const labels = [];
  for (const head of find("table").querySelectorAll("th")) {
    head.removeAttribute("aria-sort");
    if (head.dataset.key === key) head.setAttribute("aria-sort", order === "down" ? "descending" : "ascending");
    labels.push(head.textContent);
  }
  const filled = fillTable("#table", rows.map(textsOf));
  filled.selectAll("td").attr("data-label", (_, at) => labels[at]);
  filled
    .data(rows)
    .select("td")
    .text("")
    .append("a")
    .attr("href", linkTo)
    .text(row => textsOf(row)[0]);
  find("of-finding").hidden = !held;
  find("more").hidden = rows.length === all.length;
  find("more").textContent = `Show more of the ${all.length} settings`;
}

function mostRows() {
  return Number(state.rows ?? ROWS);
}

/** The button of a column's head sorts by it, or turns the order. @param {MouseEvent} event */
function sort({ target }) {
  const head = target["closest"]("button")?.closest("th");
  if (head) go({ sort: `${head.dataset.key} ${head.getAttribute("aria-sort") === "ascending" ? "down" : "up"}` });
}
