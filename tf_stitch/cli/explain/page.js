"use strict";
const graphs = JSON.parse(document.getElementById("data").textContent);
const [chooser, search, details, hits, regionList, sources] =
  ["graph", "search", "details", "hits", "regions", "sources"].map((id) => document.getElementById(id));
const LONGEST_LIST = 200, LINE = 22, TITLE = 34, MARGIN = 14;
const READABLE = 1.2;  // zoom
const REGION_FONT = 20, KERNEL_FONT = 14;  // boxes are read from afar
let shown = null;  // the graph that is drawn
let open = new Set();  // ids of the boxes that are open: regions, and kernels in them

const colour = (region, light) => `hsl(${(region * 222.5) % 360}, 65%, ${light}%)`;
const opId = (place) => `n${place}`, regionId = (region) => `r${region}`, kernelId = (kernel) => `k${kernel}`;
const labelWidth = (text, font = 11) => 0.62 * font * text.length + 14;

const cy = cytoscape({
  container: document.querySelector("main"), minZoom: 0.01, maxZoom: 4, boxSelectionEnabled: false,
  hideEdgesOnViewport: true, layout: { name: "preset" },
  style: [
    { selector: "node", style: { shape: "rectangle", width: "data(width)", height: "data(height)", label: "data(label)",
      "background-color": "data(colour)", "border-width": 1, "border-color": "#777", "font-size": 11,
      "text-valign": "center", "min-zoomed-font-size": 5 } },
    { selector: "node.tensorflow", style: { "border-style": "dashed" } },
    { selector: "node.source", style: { shape: "ellipse", color: "#777" } },
    { selector: "node.region", style: { shape: "round-rectangle", "text-wrap": "wrap", "font-size": REGION_FONT } },
    { selector: "node.kernel", style: { shape: "round-rectangle", "text-wrap": "wrap", "font-size": KERNEL_FONT } },
    { selector: "node.opened", style: { "text-valign": "top", "text-margin-y": TITLE - 4 } },
    { selector: "edge", style: { width: 1, "line-color": "#bbb", "curve-style": "straight",
      "target-arrow-shape": "triangle", "target-arrow-color": "#bbb", "arrow-scale": 0.6 } },
    { selector: "edge.local, edge.regional, edge.cluster",
      style: { width: 2.5, "line-color": "#555", "target-arrow-color": "#555" } },
    { selector: "edge.regional, edge.cluster", style: { "line-style": "dashed" } },
    { selector: ".found", style: { "border-width": 4, "border-color": "#d00000" } },
  ],
});

// Places of ops that are shown on demand: constants, arguments, reads, and what regions compute of these in no kernel.
function minorOps(ops) {
  const minor = new Map();
  const isMinor = (place) => {
    if (!minor.has(place)) {
      const op = ops[place];
      minor.set(place, false);  // a loop comes back here
      minor.set(place, !op.kernels.length && (op.region !== null || !op.inputs.length || op.op === "ReadVariableOp")
        && op.inputs.every(isMinor));
    }
    return minor.get(place);
  };
  return new Set([...ops.keys()].filter(isMinor));
}

// Ids of the boxes that hold an op, the region's first. Kernels are boxes in regions that have several.
function boxesAround(op) {
  if (op.region === null) return [];
  const kernel = op.kernels[0], region = shown.regions.find((r) => r.number === op.region);
  return kernel !== undefined && region.kernels + region.calls > 1 && shown.kernels[kernel].ops > 1
    ? [regionId(op.region), kernelId(kernel)] : [regionId(op.region)];
}

// What is drawn for an op, from the outermost open box to the first that is closed, or to the op itself.
function drawnFor(op, place) {
  if (shown.minor.has(place) && !sources.checked) return null;
  const chain = [];
  for (const box of boxesAround(op)) {
    chain.push(box);
    if (!open.has(box)) return chain;
  }
  return [...chain, opId(place)];
}

function schemeOf(before, after) {
  const kernel = shown.ops[before].kernels.find((k) => shown.ops[after].kernels.includes(k));
  if (kernel === undefined) return "memory";
  const {edges, schemes} = shown.kernels[kernel], from = shown.ops[before].name;
  return edges[from]?.[shown.ops[after].name] ?? schemes[from]?.split("+").at(-1) ?? "memory";  // the one of its result
}

// What is drawn now. children: box ("" for the graph) -> ids in it; inside: box -> edges between them, for the layout;
// edges: "from to" -> scheme, as drawn.
function visible() {
  const chains = shown.ops.map(drawnFor), children = new Map([["", new Set()]]), inside = new Map([["", new Set()]]);
  const edges = new Map();
  for (const chain of chains) {
    ["", ...(chain ?? [])].reduce((parent, id) => {
      if (!children.has(parent)) [children, inside].forEach((map) => map.set(parent, new Set()));
      children.get(parent).add(id);
      return id;
    });
  }
  shown.ops.forEach((op, place) => {
    for (const before of op.inputs) {
      const [from, to] = [chains[before], chains[place]];
      if (from === null || to === null || from.at(-1) === to.at(-1)) continue;
      edges.set(`${from.at(-1)} ${to.at(-1)}`, schemeOf(before, place));
      const fork = from.findIndex((id, i) => id !== to[i]);
      inside.get(fork ? from[fork - 1] : "").add(`${from[fork]} ${to[fork]}`);
    }
  });
  return { children, inside, edges };
}

// "1 kernel", "2 kernels".
function counted(number, noun) { return `${number} ${noun}${number === 1 ? "" : "s"}`; }

// What boxes say below their titles.
function lines({ layers, time }) { return [layers, time].filter(Boolean); }

// Title, font and colour of anything that is drawn.
function look(id) {
  const key = id.slice(1);
  if (id[0] === "r") {
    const region = shown.regions.find((r) => r.number === Number(key));
    const calls = region.calls ? `, ${counted(region.calls, "library call")}` : "";
    const title = `region ${key}: ${counted(region.ops, "op")}, ${counted(region.kernels, "kernel")}${calls}`;
    return { lines: [title, ...lines(region)],
      font: REGION_FONT, fill: (light) => colour(region.number, light), classes: "region" };
  }
  if (id[0] === "k") {
    const kernel = shown.kernels[key];
    return { lines: [`kernel ${key}: ${kernel.title}`, ...lines(kernel)], font: KERNEL_FONT,
      fill: (light) => colour(kernel.region, light - 4), classes: "kernel" };
  }
  const op = shown.ops[Number(key)];
  return { lines: [op.op], font: 11, fill: () => op.region === null ? "#fff" : colour(op.region, 80),
    classes: (op.region === null ? "tensorflow " : "") + (shown.minor.has(Number(key)) ? "source" : "") };
}

// A closed box, or an op; or an open box, whose `contents` are placed in it.
function measured(id, drawn) {
  const { lines, font } = look(id), width = Math.max(...lines.map((text) => labelWidth(text, font)));
  if (!open.has(id)) return { width, height: id[0] === "n" ? LINE : (lines.length + 1) * font };
  const contents = arranged(id, drawn), height = contents.height + TITLE + 2 * MARGIN;
  return { width: Math.max(contents.width + 2 * MARGIN, width), height, contents };
}

// Everything in a box ("" for the graph), placed.
function arranged(box, drawn) {
  const boxes = new Map([...drawn.children.get(box) ?? []].map((id) => [id, measured(id, drawn)]));
  const edges = [...drawn.inside.get(box) ?? []].map((key) => key.split(" "));
  return { boxes, ...place(boxes, edges) };
}

// Nodes for what has been placed, from its upper left corner; boxes come before what lies in them.
function* nodes({ boxes, places }, left, top) {
  for (const [id, { width, height, contents }] of boxes) {
    const [x, y] = places.get(id), { lines, fill, classes } = look(id);
    const label = (contents ? lines.slice(0, 1) : lines).join("\n");
    yield { group: "nodes", position: { x: left + x, y: top + y }, grabbable: false,
      classes: contents ? `${classes} opened` : classes,
      data: { id, width, height, label, colour: fill(contents ? 94 : 82) } };
    if (contents) yield* nodes(contents, left + x - contents.width / 2, top + y - height / 2 + TITLE + MARGIN);
  }
}

// Draws what is open and what is not.
function draw() {
  const drawn = visible(), elements = [...nodes(arranged("", drawn), 0, 0)];
  for (const [key, scheme] of drawn.edges) {
    const [source, target] = key.split(" ");
    elements.push({ group: "edges", data: { source, target }, classes: scheme });
  }
  cy.batch(() => { cy.elements().remove(); cy.add(elements); });
}

// Marks an element, and shows it in the middle with what is around it.
function mark(id, zoom) {
  cy.elements(".found").removeClass("found");
  const element = cy.getElementById(id);
  element.addClass("found");
  if (!zoom) return;
  if (element.hasClass("region") || element.hasClass("kernel")) cy.fit(element, 60);
  else {
    cy.zoom(READABLE);
    cy.center(element);
  }
}

function line(list, text, stripe, choose) {
  const item = document.createElement("li");
  item.textContent = text;
  item.style.borderLeftColor = stripe;
  item.onclick = choose;
  list.append(item);
}

function stripe(op) {
  return op.region === null ? "transparent" : colour(op.region, 70);
}

function tell(rows) {
  details.replaceChildren(...rows.map((text, i) => {
    const row = document.createElement(i ? "div" : "b");
    row.textContent = text;
    return row;
  }));
}

function tellNeighbours(title, places) {
  if (!places.length) return;
  const list = document.createElement("ol");
  places.slice(0, LONGEST_LIST).forEach(([other, scheme]) => {
    const op = shown.ops[other];
    line(list, `${op.name} (${op.op})${scheme ? `, ${scheme}` : ""}`, stripe(op), () => showOp(other));
  });
  details.append(title, list);
}

// Shows an op where it is; the boxes around it are opened, and sources are shown, if it takes that.
function showOp(place, zoom = true) {
  const op = shown.ops[place], closed = boxesAround(op).filter((box) => !open.has(box));
  const hidden = shown.minor.has(place) && !sources.checked;
  closed.forEach((box) => open.add(box));
  sources.checked ||= hidden;
  if (closed.length || hidden) draw();
  mark(opId(place), zoom);
  tell([op.name, op.op, ...(op.source ? [op.source] : []), op.region === null ? "TensorFlow runs it" : `region ${op.region}`,
    ...op.kernels.map((k) => `kernel ${shown.kernels[k].text}`), ...(op.scheme ? [`scheme ${op.scheme}`] : []),
    ...(op.why ? [op.why] : [])]);
  tellNeighbours("reads", op.inputs.map((i) => [i, schemeOf(i, place)]));
  const users = [...shown.ops.keys()].filter((i) => shown.ops[i].inputs.includes(place));
  tellNeighbours("is read by", users.map((i) => [i, schemeOf(place, i)]));
}

// Shows a kernel where it is, as its box or as its only op.
function showKernel(name) {
  const place = shown.ops.findIndex((op) => op.kernels.includes(name)), region = shown.kernels[name].region;
  const box = boxesAround(shown.ops[place]).at(-1);
  open.add(regionId(region));
  draw();
  if (shown.kernels[name].ops > 1) showBox(box, true);
  else showOp(place);
}

// Shows a region or a kernel, and opens or closes it.
function showBox(id, opened) {
  if (opened !== open.has(id)) {
    if (opened) open.add(id);
    else open.delete(id);
    draw();
  }
  mark(id, true);
  const region = shown.regions.find((r) => regionId(r.number) === id);
  const kernels = region === undefined ? [id.slice(1)] : region.kernelNames;
  tell([...(region === undefined ? [`kernel ${id.slice(1)}`] : [`region ${region.number}`, ...region.about]),
    ...kernels.map((k) => `kernel ${shown.kernels[k].text}`)]);
  const toggle = document.createElement("button");
  toggle.textContent = opened ? "close it" : "open it";
  toggle.onclick = () => showBox(id, !opened);
  details.prepend(toggle);
}

// Lists what the field on the left asks for: {regions, found}, the latter places of ops.
function listHits() {
  const text = search.value.trim().toLowerCase();
  hits.replaceChildren();
  if (!text) return { regions: [], found: [] };
  const regions = searchRegions(text), found = searchOps(text);
  regions.forEach((r) => line(hits, `region ${r.number}`, colour(r.number, 70), () => showBox(regionId(r.number), true)));
  found.slice(0, LONGEST_LIST).forEach((place) => {
    const { name, op, source } = shown.ops[place];
    line(hits, `${name} (${[op, source].filter(Boolean).join(", ")})`, stripe(shown.ops[place]), () => showOp(place));
  });
  if (found.length > LONGEST_LIST) line(hits, `and ${found.length - LONGEST_LIST} more`, "transparent", null);
  if (!regions.length && !found.length) line(hits, "nothing of this graph has all these words", "transparent", null);
  return { regions, found };
}

function find() {
  const { regions, found } = listHits();
  if (regions.length) showBox(regionId(regions[0].number), true);
  else if (found.length) showOp(found[0]);
}

// Draws a graph, and opens the kernel, what the field asks for, or the region that takes most time.
function showGraph(number, kernel = null) {
  shown = graphs[number];
  open = new Set();
  regionList.replaceChildren();
  const total = totalOf(shown) || 1;
  longest(shown.regions).forEach((r) => line(regionList,
    [`${Math.round(100 * r.total / total)}% region ${r.number}: ${counted(r.ops, "op")}`, ...lines(r)].join(", "),
    colour(r.number, 70), () => showBox(regionId(r.number), true)));
  details.replaceChildren();
  draw();
  cy.fit(undefined, 20);
  if (kernel !== null) {
    listHits();
    showKernel(kernel);
  } else if (search.value.trim()) find();
  else if (shown.regions.length) showBox(regionId(longest(shown.regions)[0].number), true);
}

// Microseconds in all regions of a graph.
function totalOf(graph) { return graph.regions.reduce((sum, region) => sum + region.total, 0); }

function longest(regions) { return [...regions].sort((a, b) => b.total - a.total); }

// Whether the page begins with graph a: the one that takes most time, or has most ops where nothing has times.
function startsBefore(a, b) {
  return totalOf(a) !== totalOf(b) ? totalOf(a) > totalOf(b) : a.ops.length >= b.ops.length;
}

function openOnly(boxes) {
  open = new Set(boxes);
  draw();
  cy.fit(undefined, 20);
}

cy.on("tap", "node", (event) => {
  const id = event.target.id();
  if (id[0] === "n") showOp(Number(id.slice(1)), false);
  else showBox(id, true);
});
document.getElementById("open").onclick = () => openOnly(shown.ops.flatMap(boxesAround));
document.getElementById("close").onclick = () => openOnly([]);
document.getElementById("fit").onclick = () => cy.fit(undefined, 20);
sources.onchange = draw;
graphs.forEach((graph) => { graph.minor = minorOps(graph.ops); });
graphs.forEach((graph, i) => chooser.add(new Option(`${graph.name} (${graph.ops.length} ops)`, i)));
let waiting = null;
search.oninput = () => { clearTimeout(waiting); waiting = setTimeout(find, 200); };
chooser.onchange = () => showGraph(Number(chooser.value));
const wanted = decodeURIComponent(location.hash.slice(1));  // page.html#name opens with a layer or an op
const landing = wanted ? largestKernel(wanted.trim().toLowerCase()) : null;
const first = landing?.graph ?? graphs.indexOf(graphs.reduce((a, b) => startsBefore(a, b) ? a : b));
chooser.value = first;
search.value = wanted;
showGraph(first, landing?.kernel);
