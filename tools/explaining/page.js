"use strict";
const graphs = JSON.parse(document.getElementById("data").textContent);
const [chooser, search, details, hits, regionList, sources] =
  ["graph", "search", "details", "hits", "regions", "sources"].map((id) => document.getElementById(id));
const LONGEST_LIST = 200, LINE = 22, TITLE = 34, MARGIN = 14;
const READABLE = 1.2;  // zoom
const REGION_FONT = 20;  // regions are read from afar
let shown = null;  // the graph that is drawn
let open = new Set();  // numbers of its regions that are open

const colour = (region, light) => `hsl(${(region * 222.5) % 360}, 65%, ${light}%)`;
const isSource = (op) => op.region === null && (!op.inputs.length || op.op === "ReadVariableOp");
const opId = (place) => `n${place}`, regionId = (region) => `r${region}`;
const labelWidth = (text, font = 11) => 0.62 * font * text.length + 14;

const cy = cytoscape({
  container: document.querySelector("main"), minZoom: 0.01, maxZoom: 4, wheelSensitivity: 0.3, boxSelectionEnabled: false,
  hideEdgesOnViewport: true, layout: { name: "preset" },
  style: [
    { selector: "node", style: { shape: "rectangle", width: "data(width)", height: "data(height)", label: "data(label)",
      "background-color": "data(colour)", "border-width": 1, "border-color": "#777", "font-size": 11,
      "text-valign": "center", "min-zoomed-font-size": 5 } },
    { selector: "node.tensorflow", style: { "border-style": "dashed" } },
    { selector: "node.source", style: { shape: "ellipse", color: "#777" } },
    { selector: "node.region", style: { shape: "round-rectangle", "text-wrap": "wrap", "font-size": REGION_FONT } },
    { selector: "node.opened", style: { "text-valign": "top", "text-margin-y": TITLE - 4, "z-compound-depth": "bottom" } },
    { selector: "edge", style: { width: 1, "line-color": "#bbb", "curve-style": "straight", "target-arrow-shape": "triangle",
      "target-arrow-color": "#bbb", "arrow-scale": 0.6 } },
    { selector: "edge.local, edge.regional", style: { width: 2.5, "line-color": "#555", "target-arrow-color": "#555" } },
    { selector: "edge.regional", style: { "line-style": "dashed" } },
    { selector: ".found", style: { "border-width": 4, "border-color": "#d00000" } },
  ],
});

// Ids of what stands for every op now, null for a source that is hidden.
function standIns() {
  return shown.ops.map((op, place) => {
    if (op.region !== null) return open.has(op.region) ? opId(place) : regionId(op.region);
    return isSource(op) && !sources.checked ? null : opId(place);
  });
}

function schemeOf(before, after) {
  const kernel = shown.ops[before].kernels.find((k) => shown.ops[after].kernels.includes(k));
  const schemes = kernel === undefined ? undefined : shown.kernels[kernel].schemes[shown.ops[before].name];
  return schemes === undefined ? "memory" : schemes.split("+").at(-1);  // the one of its result
}

// Edges between what is shown: "from to" -> scheme.
function edgesBetween(standIn) {
  const edges = new Map();
  shown.ops.forEach((op, place) => {
    for (const before of op.inputs) {
      const [from, to] = [standIn[before], standIn[place]];
      if (from !== null && to !== null && from !== to) edges.set(`${from} ${to}`, schemeOf(before, place));
    }
  });
  return edges;
}

function regionTitle(region) {
  return `region ${region.number}: ${region.ops} ops, ${region.kernels} kernels`;
}

function opBox(op) {
  return { width: labelWidth(op.op), height: LINE };
}

// Draws what is open and what is not.
function draw() {
  const standIn = standIns(), edges = edgesBetween(standIn);
  const pairs = [...edges.keys()].map((key) => key.split(" "));
  const regionOf = new Map(shown.ops.map((op, place) => [opId(place), open.has(op.region) ? regionId(op.region) : null]));
  const outer = (id) => regionOf.get(id) ?? id;
  const boxes = new Map(), insides = new Map(), elements = [];
  for (const number of open) {
    const own = new Map(shown.ops.map((op, place) => [opId(place), op]).filter(([, op]) => op.region === number)
      .map(([id, op]) => [id, opBox(op)]));
    insides.set(number, place(own, pairs.filter(([a, b]) => own.has(a) && own.has(b))));
  }
  for (const region of shown.regions) {
    const inside = insides.get(region.number);
    const lines = [regionTitle(region), region.time];
    const width = Math.max(...lines.map((text) => labelWidth(text, REGION_FONT)));
    boxes.set(regionId(region.number), inside
      ? { width: Math.max(inside.width + 2 * MARGIN, width), height: inside.height + TITLE + 2 * MARGIN }
      : { width, height: 3 * REGION_FONT });
  }
  shown.ops.forEach((op, i) => { if (standIn[i] === opId(i) && op.region === null) boxes.set(opId(i), opBox(op)); });
  const outerPairs = [...new Set(pairs.map(([a, b]) => `${outer(a)} ${outer(b)}`))].map((key) => key.split(" "))
    .filter(([a, b]) => a !== b);
  const { places } = place(boxes, outerPairs);
  const add = (id, data, [x, y], classes) =>
    elements.push({ group: "nodes", data: { id, ...data }, position: { x, y }, classes, grabbable: false });
  for (const region of shown.regions) {
    const id = regionId(region.number), [x, y] = places.get(id), inside = insides.get(region.number);
    add(id, { ...boxes.get(id), colour: colour(region.number, inside ? 94 : 82),
      label: regionTitle(region) + (inside ? "" : `\n${region.time}`) },
    [x, y], inside ? "region opened" : "region");
    if (!inside) continue;
    const left = x - inside.width / 2, top = y - boxes.get(id).height / 2 + TITLE + MARGIN;
    for (const [child, [cx, cy_]] of inside.places) addOp(add, Number(child.slice(1)), [left + cx, top + cy_]);
  }
  shown.ops.forEach((op, i) => { if (boxes.has(opId(i))) addOp(add, i, places.get(opId(i))); });
  for (const [key, scheme] of edges) {
    const [source, target] = key.split(" ");
    elements.push({ group: "edges", data: { source, target }, classes: scheme });
  }
  cy.batch(() => { cy.elements().remove(); cy.add(elements); });
}

function addOp(add, i, at) {
  const op = shown.ops[i];
  const classes = op.region !== null ? "" : isSource(op) ? "source tensorflow" : "tensorflow";
  add(opId(i), { ...opBox(op), label: op.op, colour: op.region === null ? "#fff" : colour(op.region, 80) }, at, classes);
}

// Marks an element, and shows it in the middle with what is around it.
function mark(id, zoom) {
  cy.elements(".found").removeClass("found");
  const element = cy.getElementById(id);
  element.addClass("found");
  if (!zoom) return;
  if (element.hasClass("region")) cy.fit(element, 60);
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

// Shows an op where it is; its region is opened, and sources are shown, if it takes that.
function showOp(place, zoom = true) {
  const op = shown.ops[place];
  if (op.region !== null && !open.has(op.region)) {
    open.add(op.region);
    draw();
  } else if (isSource(op) && !sources.checked) {
    sources.checked = true;
    draw();
  }
  mark(opId(place), zoom);
  tell([op.name, op.op, op.region === null ? "TensorFlow runs it" : `region ${op.region}`,
    ...op.kernels.map((k) => `kernel ${shown.kernels[k].text}`), ...(op.scheme ? [`scheme ${op.scheme}`] : []),
    ...(op.why ? [op.why] : [])]);
  tellNeighbours("reads", op.inputs.map((i) => [i, schemeOf(i, place)]));
  tellNeighbours("is read by", shown.ops.flatMap((user, i) => user.inputs.includes(place) ? [[i, schemeOf(place, i)]] : []));
}

function showRegion(number, opened) {
  const region = shown.regions.find((r) => r.number === number);
  if (opened !== open.has(number)) {
    if (opened) open.add(number);
    else open.delete(number);
    draw();
  }
  mark(regionId(number), true);
  tell([`region ${number}`, ...region.about, ...region.kernelNames.map((k) => `kernel ${shown.kernels[k].text}`)]);
  const toggle = document.createElement("button");
  toggle.textContent = opened ? "close it" : "open it";
  toggle.onclick = () => showRegion(number, !opened);
  details.append(toggle);
}

function find() {
  const text = search.value.toLowerCase();
  hits.replaceChildren();
  if (!text) return;
  const found = shown.ops.map((op, place) => [op, place])
    .filter(([op]) => `${op.name} ${op.op}`.toLowerCase().includes(text));
  found.slice(0, LONGEST_LIST).forEach(([op, place]) => line(hits, op.name, stripe(op), () => showOp(place)));
  if (found.length > LONGEST_LIST) line(hits, `and ${found.length - LONGEST_LIST} more`, "transparent", null);
  if (found.length) showOp(found[0][1]);
  else line(hits, "no such node in this graph", "transparent", null);
}

function showGraph(number) {
  shown = graphs[number];
  open = new Set();
  regionList.replaceChildren();
  shown.regions.forEach((r) => line(regionList, `region ${r.number}: ${r.ops} ops, ${r.time}`, colour(r.number, 70),
    () => showRegion(r.number, true)));
  details.replaceChildren();
  draw();
  cy.fit(undefined, 20);
  find();
}

function openOnly(numbers) {
  open = new Set(numbers);
  draw();
  cy.fit(undefined, 20);
}

cy.on("tap", "node", (event) => {
  const id = event.target.id(), number = Number(id.slice(1));
  if (id[0] === "r") showRegion(number, true);
  else showOp(number, false);
});
document.getElementById("open").onclick = () => openOnly(shown.regions.map((r) => r.number));
document.getElementById("close").onclick = () => openOnly([]);
document.getElementById("fit").onclick = () => cy.fit(undefined, 20);
sources.onchange = draw;
graphs.forEach((graph, i) => chooser.add(new Option(`${graph.name} (${graph.ops.length} ops)`, i)));
const largest = graphs.reduce((best, graph, i) => graph.ops.length > graphs[best].ops.length ? i : best, 0);
chooser.value = largest;
chooser.onchange = () => showGraph(Number(chooser.value));
let waiting = null;
search.oninput = () => { clearTimeout(waiting); waiting = setTimeout(find, 200); };
search.value = decodeURIComponent(location.hash.slice(1));  // page.html#name opens with a search
showGraph(largest);
