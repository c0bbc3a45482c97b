"use strict";
// Places boxes in layers by dagre: each connected part by itself, the parts then in rows.
const GAP = 30;
const LARGE = 300;  // nodes from which the shortest edges take too long to find
const LONG = 6;  // layers; dagre's time goes into edges that cross many

// Sets of ids that edges connect.
function connectedParts(ids, edges) {
  const leader = new Map(ids.map((id) => [id, id]));
  const find = (id) => {
    while (leader.get(id) !== id) {
      leader.set(id, leader.get(leader.get(id)));
      id = leader.get(id);
    }
    return id;
  };
  for (const [a, b] of edges) leader.set(find(a), find(b));
  const parts = new Map();
  for (const id of ids) {
    const part = find(id);
    if (!parts.has(part)) parts.set(part, []);
    parts.get(part).push(id);
  }
  return [...parts.values()];
}

// Layers counted from the sources: id -> number.
function depths(ids, edges) {
  const after = new Map(ids.map((id) => [id, []])), waits = new Map(ids.map((id) => [id, 0]));
  for (const [a, b] of edges) {
    after.get(a).push(b);
    waits.set(b, waits.get(b) + 1);
  }
  const depth = new Map(ids.map((id) => [id, 0])), ready = ids.filter((id) => !waits.get(id));
  while (ready.length) {
    const id = ready.pop();
    for (const next of after.get(id)) {
      depth.set(next, Math.max(depth.get(next), depth.get(id) + 1));
      waits.set(next, waits.get(next) - 1);
      if (!waits.get(next)) ready.push(next);
    }
  }
  return depth;
}

// Edges that decide places: short ones, and the shortest that leaves each node.
function decisive(ids, edges) {
  const depth = depths(ids, edges), span = ([a, b]) => Math.abs(depth.get(b) - depth.get(a)), shortest = new Map();
  for (const edge of edges) {
    const best = shortest.get(edge[0]);
    if (best === undefined || span(edge) < span(best)) shortest.set(edge[0], edge);
  }
  return edges.filter((edge) => span(edge) <= LONG || shortest.get(edge[0]) === edge);
}

// One connected part: {width, height, places: id -> [x, y]}, places of middles from the upper left corner.
function layered(ids, boxes, edges) {
  if (ids.length === 1) {
    const { width, height } = boxes.get(ids[0]);
    return { width, height, places: new Map([[ids[0], [width / 2, height / 2]]]) };
  }
  const graph = new dagre.graphlib.Graph();
  const ranker = ids.length > LARGE ? "longest-path" : "network-simplex";
  graph.setGraph({ rankdir: "TB", ranksep: 30, nodesep: 12, edgesep: 4, ranker });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of ids) graph.setNode(id, { ...boxes.get(id) });
  for (const [a, b] of decisive(ids, edges)) graph.setEdge(a, b);
  dagre.layout(graph);
  const { width, height } = graph.graph();
  return { width, height, places: new Map(ids.map((id) => [id, [graph.node(id).x, graph.node(id).y]])) };
}

// boxes: id -> {width, height}; edges: [[id, id]]. As `layered`, for any graph.
function place(boxes, edges) {
  const ids = [...boxes.keys()], partOf = new Map();
  const parts = connectedParts(ids, edges).map((members) => ({ members, edges: [] }));
  for (const part of parts) for (const id of part.members) partOf.set(id, part);
  for (const edge of edges) partOf.get(edge[0]).edges.push(edge);
  const placed = parts.map((part) => layered(part.members, boxes, part.edges)).sort((a, b) => b.height - a.height);
  const area = placed.reduce((sum, part) => sum + (part.width + GAP) * (part.height + GAP), 0);
  const widest = Math.max(1.5 * Math.sqrt(area), ...placed.map((part) => part.width));
  const places = new Map();
  let x = 0, y = 0, rowHeight = 0, width = 0;
  for (const part of placed) {
    if (x && x + part.width > widest) [x, y, rowHeight] = [0, y + rowHeight + GAP, 0];
    for (const [id, [px, py]] of part.places) places.set(id, [x + px, y + py]);
    width = Math.max(width, x + part.width);
    rowHeight = Math.max(rowHeight, part.height);
    x += part.width + GAP;
  }
  return { width, height: y + rowHeight, places };
}
