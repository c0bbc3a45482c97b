"use strict";

// What a text may mean, best first: the end of an op's name, its beginning there, words of its name, its type, and
// whatever else is known of it: line of the program, region, kernels, why it was left out.
const RANKS = [
  (op, text) => op.name.toLowerCase() === text || lastPart(op) === text,
  (op, text) => lastPart(op).startsWith(text),
  (op, text, words) => holdsAll(op.name.toLowerCase(), words),
  (op, text) => op.op.toLowerCase().includes(text),
  (op, text, words) => holdsAll(allOf(op), words),
];

function lastPart(op) { return op.name.toLowerCase().split("/").pop(); }

function holdsAll(known, words) { return words.every((word) => known.includes(word)); }

function allOf(op) {
  const kernels = op.kernels.map((name) => `kernel ${name} ${shown.kernels[name].title}`);
  const region = op.region === null ? "" : `region ${op.region}`;
  return [op.name, op.op, op.source, region, ...kernels, op.why ?? ""].join("\n").toLowerCase();
}

// {graph, kernel}: of all kernels with ops whose names have these words, the one that takes most time; null if the text
// is an op's whole name, or no kernel has such an op.
function largestKernel(text) {
  const words = text.match(/\S+/g) ?? [], found = [];
  for (const [graph, { ops, kernels }] of graphs.entries()) {
    if (ops.some((op) => op.name.toLowerCase() === text)) return null;
    for (const op of ops.filter((op) => holdsAll(op.name.toLowerCase(), words))) {
      found.push(...op.kernels.map((kernel) => ({ graph, kernel, total: kernels[kernel].total })));
    }
  }
  return found.reduce((best, one) => best && best.total >= one.total ? best : one, null);
}

// Places of the ops that a text finds; of those that fit equally well in the graph's order.
function searchOps(text) {
  const words = (text.match(/region \d+|\S+/g) ?? []).map((word) => word.startsWith("region ") ? `${word}\n` : word);
  const ranked = shown.ops.map((op, place) => [RANKS.findIndex((fits) => fits(op, text, words)), place]);
  return ranked.filter(([rank]) => rank >= 0).sort(([a], [b]) => a - b).map(([, place]) => place);
}

// Regions that a text names: "region 3".
function searchRegions(text) {
  return shown.regions.filter((region) => `region ${region.number}` === text);
}
