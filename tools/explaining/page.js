"use strict";
const graphs = JSON.parse(document.getElementById("data").textContent);
const [chooser, search, details, hits, regions] =
  ["graph", "search", "details", "hits", "regions"].map((id) => document.getElementById(id));
const drawings = [...document.querySelectorAll("main > svg")];
const LONGEST_LIST = 200;
let shown = 0;

function line(list, text, colour, choose) {
  const item = document.createElement("li");
  item.textContent = text;
  item.style.borderLeftColor = colour;
  item.onclick = choose;
  list.append(item);
}

function colourOf(op) {
  const region = graphs[shown].regions.find((r) => r.number === op.region);
  return region ? region.colour : "transparent";
}

function tell(rows) {
  details.replaceChildren(...rows.map((text, i) => {
    const row = document.createElement(i ? "div" : "b");
    row.textContent = text;
    return row;
  }));
}

function mark(element) {
  document.querySelectorAll(".found").forEach((e) => e.classList.remove("found"));
  element.classList.add("found");
}

// Shows `element` in the middle, with room around it.
function zoomTo(element, room) {
  const svg = drawings[shown], box = element.getBoundingClientRect(), inverse = svg.getScreenCTM().inverse();
  const from = new DOMPoint(box.left, box.top).matrixTransform(inverse);
  const to = new DOMPoint(box.right, box.bottom).matrixTransform(inverse);
  const width = (to.x - from.x) * room, height = (to.y - from.y) * room;
  const view = svg.viewBox.baseVal;
  [view.x, view.y] = [(from.x + to.x - width) / 2, (from.y + to.y - height) / 2];
  [view.width, view.height] = [width, height];
}

function showOp(place, zoom) {
  const op = graphs[shown].ops[place], element = document.getElementById(`g${shown}n${place}`);
  mark(element);
  if (zoom) zoomTo(element, 8);
  const where = op.region === null ? "stays a TensorFlow op" : `region ${op.region}`;
  tell([op.name, op.op, where, ...op.kernels.map((k) => `kernel ${k}`), ...(op.scheme ? [`scheme ${op.scheme}`] : []),
    ...(op.why ? [op.why] : [])]);
}

function showRegion(region) {
  const element = document.getElementById(`g${shown}r${region.number}`);
  mark(element);
  zoomTo(element, 1.2);
  tell([`region ${region.number}`, `${region.ops} ops, ${region.kernels} kernels, ran ${region.runs} times (${region.wrap})`,
    `${region.predicted} us predicted` + (region.measured === null ? "" : `, ${region.measured} us measured`),
    ...(region.plan ? [`plan ${region.plan}`] : []), ...(region.problem ? [region.problem] : [])]);
}

function find() {
  const text = search.value.toLowerCase();
  hits.replaceChildren();
  if (!text) return;
  const found = graphs[shown].ops.map((op, place) => [op, place])
    .filter(([op]) => `${op.name} ${op.op}`.toLowerCase().includes(text));
  found.slice(0, LONGEST_LIST).forEach(([op, place]) => line(hits, op.name, colourOf(op), () => showOp(place, true)));
  if (found.length > LONGEST_LIST) line(hits, `and ${found.length - LONGEST_LIST} more`, "transparent", null);
  if (found.length) showOp(found[0][1], true);
}

function showGraph(number) {
  shown = number;
  drawings.forEach((svg, i) => svg.classList.toggle("shown", i === number));
  regions.replaceChildren();
  graphs[number].regions.forEach((r) => line(regions, `region ${r.number}: ${r.ops} ops, ${r.predicted} us`, r.colour,
    () => showRegion(r)));
  details.replaceChildren();
  find();
}

drawings.forEach((svg, number) => {
  const view = svg.viewBox.baseVal;
  let held = false;
  svg.removeAttribute("width");
  svg.removeAttribute("height");
  svg.onwheel = (event) => {
    event.preventDefault();
    const factor = 1.2 ** Math.sign(event.deltaY);
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    [view.x, view.y] = [at.x - (at.x - view.x) * factor, at.y - (at.y - view.y) * factor];
    [view.width, view.height] = [view.width * factor, view.height * factor];
  };
  svg.onpointerdown = () => { held = true; };
  window.addEventListener("pointerup", () => { held = false; });
  svg.onpointermove = (event) => {
    if (!held) return;
    const scale = svg.getScreenCTM().a;
    [view.x, view.y] = [view.x - event.movementX / scale, view.y - event.movementY / scale];
  };
  svg.onclick = (event) => {
    const node = event.target.closest("g.node");
    if (node) showOp(Number(node.id.replace(/^g\d+n/, "")), false);
  };
  chooser.add(new Option(graphs[number].name, number));
});
chooser.onchange = () => showGraph(Number(chooser.value));
search.oninput = find;
showGraph(0);
if (location.hash) {  // page.html#name opens with a search
  search.value = decodeURIComponent(location.hash.slice(1));
  find();
}
