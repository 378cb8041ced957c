// Names that the libraries of a page define.
import type * as PlotModule from "@observablehq/plot";
import type * as d3Module from "d3";
declare global {
  const Plot: typeof PlotModule;
  const d3: typeof d3Module;
  type ScaleOptions = PlotModule.ScaleOptions;
}
