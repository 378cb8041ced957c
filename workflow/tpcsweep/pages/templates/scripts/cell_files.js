// The transfers of a cell, the command that measures it again, and its files.

const { transfers, again } = data;
const failures = new Map(transfers.failures);
const starts = [0, ...d3.cumsum(transfers.counts, count => Math.min(count, transfers.most))];

function fillTransfers(cell) {
  const count = transfers.counts[cell];
  const listed = d3.range(starts[cell], starts[cell + 1]);
  const { stream, start, end, rate } = transfers;
  const rows = listed.map(row => [stream[row], start[row], end[row], rate[row], failures.get(row)]);
  fillTable("#transfers", rows);
  fill("counted", `${count} transfers${listed.length < count ? `, the first ${listed.length} of them` : ""}`);
  find("transfers").hidden = !count;
  find("uncounted").hidden = count > 0;
}

/** A word of a command for a shell. @param {string} text */
function quoted(text) {
  return /^[A-Za-z0-9_./=@:,+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Path of a cell's file in the folder of results. */
function fileOf(cell) {
  return `cells/${again.deployments[again.deployment[cell]]}/${again.cell[cell]}.json`;
}

/** Show the command of a cell, and the paths of the logs and files of all measured repetitions of a setting. */
function fillFiles(row, cell) {
  if (!again) return;
  const isKnown = again.cell[cell] !== "";
  find("again").hidden = !isKnown;
  fill("command", isKnown && `rm -f ${quoted(`${again.results}/${fileOf(cell)}`)} && ${again.command}`);
  const own = cellsOf(row).filter(one => again.cell[one] && (cells.status[one] > 0 || messages.has(one)));
  const logs = d3.union(own.map(one => again.deployment[one]));
  const paths = [
    ...Array.from(logs, place => ({ path: `${again.log_folders[place]}/`, isHere: again.logs[place] })),
    ...own.map(one => ({ path: fileOf(one), isHere: again.files[one] })),
  ];
  const items = d3.select("#paths").selectAll("li").data(paths).join("li").text("");
  const links = items.append(({ isHere }) => document.createElement(isHere ? "a" : "span"));
  links.filter("a").attr("href", ({ path }) => path.split("/").map(encodeURIComponent).join("/"));
  links.append("code").text(({ path }) => `${again.results}/${path}`);
  find("files").hidden = !paths.length;
}
