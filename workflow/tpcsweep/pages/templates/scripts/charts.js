"use strict";
// What all charts by Observable Plot share.

const FONT = { fontSize: "12px" };
const LETTER = 7; // px, width of a letter of labels
const SEVERAL = 20; // values of an axis beyond which its ticks and the numbers of its cells are thinned out

function isDark() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Draw now, and again for a window of another width. @param {() => void} draw */
function drawForWidths(draw) {
  let width = innerWidth;
  draw();
  addEventListener("resize", () => {
    if (width === innerWidth) return; // a phone's address bar changes the height
    width = innerWidth;
    draw();
  });
}

/** The colour of text that is readable on a colour. */
function ink(colour) {
  return d3.lab(colour).l > 58 ? "#111" : "#fff";
}

/** Room for labels, px. @param {string[]} texts */
function widest(texts) {
  return Math.min(150, LETTER * d3.max(texts, text => text.length));
}

/** Three digits of a number. */
const threeDigits = d3.format(".3~g");

/** A chart, whose marks' names become data: a label of a group without a role is read to nobody. */
function plot(options, role = "img") {
  const chart = Plot.plot({ style: FONT, ...options });
  for (const group of chart.querySelectorAll("g[aria-label]")) {
    group.setAttribute("data-mark", group.getAttribute("aria-label"));
    group.removeAttribute("aria-label");
  }
  chart.setAttribute("role", role);
  return chart;
}

/** Options of the legend of a continuous scale. */
const RAMP = { width: 260, marginRight: 16, tickFormat: ".3~g" };

/** @param {ScaleOptions} color @param {Record<string, any>} options */
function legendOf(color, options = {}) {
  return Plot.legend({ style: FONT, color, marginLeft: 16, ...options });
}
