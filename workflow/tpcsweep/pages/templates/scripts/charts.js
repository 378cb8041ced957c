"use strict";
// What all charts by Observable Plot share.

const FONT = { fontSize: "12px" };
const LETTER = 7; // px, width of a letter of labels
const SEVERAL = 20; // values of an axis beyond which its ticks and the numbers of its cells are thinned out
const WIDE_INTERVAL = 0.25; // half-width over the mean of settings that are drawn pale

function isDark() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The colour of text that is readable on a colour. */
function ink(colour) {
  return d3.lab(colour).l > 58 ? "#111" : "#fff";
}

/** Room for labels, px. @param {string[]} texts */
function widest(texts) {
  return Math.min(150, LETTER * d3.max(texts, text => text.length));
}

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

/** @param {ScaleOptions} color @param {Record<string, any>} options */
function legendOf(color, options = {}) {
  return Plot.legend({ style: FONT, color, marginLeft: 8, ...options });
}
