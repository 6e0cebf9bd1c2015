"use strict";
// Part 1: the rule. The same answers as lazyt.explain_broadcast, without a page.

const LARGEST = 2 ** 31;
const nameOf = (at) => String.fromCharCode(97 + at);
const tuple = (sizes) => `(${sizes.join(", ")}${sizes.length === 1 ? "," : ""})`;

/** The sizes in a text such as "8, 1, 6" or "(8x1x6)": {shape} or {wrong: why not}. */
function parseShape(text) {
  const inner = text.trim().replace(/^(?:torch\.Size)?[(\[]*|[)\]]*$/g, "").trim().replace(/,$/, "");
  if (!inner) return {shape: []};
  const shape = [];
  for (const part of inner.split(/\s*[,x×*]\s*|\s+/)) {
    if (part === "") return {wrong: "A size is missing between two separators. Example: 8, 1, 6"};
    if (/^-\d+$/.test(part)) return {wrong: `A size cannot be negative: ${part}.`};
    if (!/^\d+$/.test(part)) {
      return {wrong: `“${part}” is no size. Write whole numbers with commas, such as 8, 1, 6; `
        + "leave the field empty for a single number."};
    }
    if (Number(part) > LARGEST) return {wrong: `${part} is too large to explain.`};
    shape.push(Number(part));
  }
  return shape.length > 12 ? {wrong: "More than 12 dimensions do not fit this page."} : {shape};
}

/** Row-major strides; BigInt, since they are products. */
function contiguousStrides(shape) {
  const strides = shape.map(() => 1n);
  for (let at = shape.length - 2; at >= 0; at--) {
    strides[at] = strides[at + 1] * BigInt(Math.max(shape[at + 1], 1));
  }
  return strides;
}

function expandedStrides(shape, strides, result) {
  const found = [];
  let inner = 1n;
  for (let back = 1; back <= result.length; back++) {
    const at = shape.length - back;
    const wanted = result[result.length - back];
    const stride = (at < 0 ? 1 : shape[at]) !== wanted ? 0n : at < 0 ? inner : strides[at];
    found.unshift(stride);
    inner = BigInt(wanted) * stride;
  }
  return found;
}

function sentence(step) {
  const copies = step.result === null || step.result === 1 ? ""
    : step.result === 0 ? ", dropped to 0" : `, stretched to ${step.result}`;
  const said = step.sizes.map((size, at) => {
    if (step.rules[at] === "missing") {
      return `${nameOf(at)} has no such dimension: missing -> 1${copies}`;
    }
    return `${nameOf(at)} has ${size}${step.rules[at] === "stretched" ? copies : ""}`;
  }).join("; ");
  if (step.result === null) return `${said}: conflict, the sizes differ and none of them is 1`;
  if (step.sizes.length > 1 && step.rules.every((rule) => rule === "equal")) {
    return `equal, all have ${step.result}`;
  }
  return said;
}

function makeStep(dim, sizes) {
  const others = new Set(sizes.filter((size) => size !== null && size !== 1));
  const result = others.size > 1 ? null : others.size ? [...others][0] : 1;
  const rules = sizes.map((size) => size === null ? "missing"
    : size === result ? "equal" : size === 1 ? "stretched" : "conflict");
  const step = {dim, sizes, rules, result};
  return {...step, text: sentence(step)};
}

/** The common shape of two shapes, or PyTorch's message. */
function broadcastPair(a, b) {
  const rank = Math.max(a.length, b.length);
  const left = [...Array(rank - a.length).fill(1), ...a];
  const right = [...Array(rank - b.length).fill(1), ...b];
  for (let axis = rank - 1; axis >= 0; axis--) {
    if (left[axis] !== right[axis] && left[axis] !== 1 && right[axis] !== 1) {
      return {error: `The size of tensor a (${left[axis]}) must match the size of tensor b `
        + `(${right[axis]}) at non-singleton dimension ${axis}`};
    }
  }
  return {shape: left.map((size, axis) => size === 1 ? right[axis] : size)};
}

const fits = (a, b) => !broadcastPair(a, b).error;

/** All ways to choose `count` of the numbers below `limit`, in order. */
function* choices(limit, count, from = 0) {
  if (!count) yield [];
  else for (let at = from; at <= limit - count; at++) {
    for (const rest of choices(limit, count - 1, at + 1)) yield [at, ...rest];
  }
}

function adviceFor(first, a, second, b) {
  const [short, at, long] = b.length <= a.length ? [b, second, a] : [a, first, b];
  const name = nameOf(at);
  for (const places of choices(long.length, short.length)) {
    const wide = long.map(() => 1);
    places.forEach((place, number) => { wide[place] = short[number]; });
    if (fits(wide, long)) {
      const shape = tuple(wide.slice(places[0]));
      return `If ${name} should line up elsewhere: ${name}.reshape${shape} broadcasts.`;
    }
  }
  if (short.length > 1) {
    const turned = [...short.slice(0, -2), short.at(-1), short.at(-2)];
    if (fits(turned, long)) {
      return `If two dimensions of ${name} are exchanged: ${name}.transpose(-2, -1) broadcasts.`;
    }
  }
  return "Make the two sizes equal, or one of them 1.";
}

function conflictAdvice(shapes) {
  for (let second = 1; second < shapes.length; second++) {
    for (let first = 0; first < second; first++) {
      if (!fits(shapes[first], shapes[second])) {
        return adviceFor(first, shapes[first], second, shapes[second]);
      }
    }
  }
  return null;
}

/** What Python's explain_broadcast returns, as a plain object. */
function explainBroadcast(shapes) {
  const rank = Math.max(0, ...shapes.map((shape) => shape.length));
  const steps = Array.from({length: rank}, (_, number) => makeStep(-number - 1,
    shapes.map((shape) => number < shape.length ? shape[shape.length - 1 - number] : null)));
  let result = [];
  for (const shape of shapes) {
    const pair = broadcastPair(result, shape);
    if (pair.error) {
      return {shapes, steps, result: null, strides: null, error: pair.error,
        advice: conflictAdvice(shapes)};
    }
    result = pair.shape;
  }
  const strides = shapes.map((shape) => expandedStrides(shape, contiguousStrides(shape), result));
  return {shapes, steps, result, strides, error: null, advice: null};
}

// Part 2: the pictures.

const CELL = 22, GAP = 10, MOST_CELLS = 300;
const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  const svg = ["svg", "rect", "text", "path", "g", "title"].includes(tag);
  const made = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Which indices of each dimension are drawn; null stands for those left out. */
function drawnIndices(sizes) {
  const total = (limit) => sizes.reduce((all, size) => all * Math.min(size, limit), 1);
  let limit = Math.max(0, ...sizes);
  if (total(limit) > MOST_CELLS) {
    limit = 3;
    if (total(limit) > MOST_CELLS) return null;
    while (total(limit + 1) <= MOST_CELLS) limit++;
  }
  return sizes.map((size) => size <= limit ? Array.from({length: size}, (_, at) => at)
    : [...Array.from({length: limit - 2}, (_, at) => at), null, size - 1]);
}

/** Where cells lie: the last dimension runs to the right, the one before down, and so on. */
function makeGeometry(result) {
  const drawn = drawnIndices(result);
  if (drawn === null) return null;
  const extent = [CELL, CELL];
  const pitch = [];
  for (let at = result.length - 1, depth = 0; at >= 0; at--, depth++) {
    const axis = depth % 2;
    const gap = depth < 2 ? 2 : GAP * Math.floor(depth / 2);
    pitch[at] = [axis, extent[axis] + gap];
    extent[axis] += (extent[axis] + gap) * (Math.max(drawn[at].length, 1) - 1);
  }
  let cells = [{index: [], spot: [0, 0]}];
  drawn.forEach((indices, at) => {
    const [axis, distance] = pitch[at];
    cells = cells.flatMap(({index, spot}) => indices.map((value, number) => {
      const moved = [...spot];
      moved[axis] += number * distance;
      return {index: [...index, value], spot: moved};
    }));
  });
  return {cells, extent, pitch};
}

function startSvg(geometry, label) {
  const [width, height] = geometry.extent.map((size) => size + 2);
  const scale = Math.min(2, Math.max(1, 300 / Math.max(width, height)));  // small ones larger
  return element("svg", {viewBox: `-1 -1 ${width} ${height}`, width: width * scale,
    height: height * scale, role: "img", "aria-label": label});
}

const square = ([x, y], kind) => element("rect", {x, y, width: CELL, height: CELL, rx: 3,
  class: kind});
const write = ([x, y], text, kind, width = CELL) => element("text", {x: x + width / 2,
  y: y + CELL / 2 + 0.5, class: kind}, text);

/** The position in memory of the element of `shape` that is read at `index`; -1 if left out. */
function positionAt(index, shape) {
  const strides = contiguousStrides(shape).map(Number);
  const lead = index.length - shape.length;
  if (shape.some((size, own) => size !== 1 && index[lead + own] === null)) return -1;
  return shape.reduce((sum, size, own) =>
    sum + (size === 1 ? 0 : index[lead + own] * strides[own]), 0);
}

/**
 * How a cell of the result is read by an operand after `done` steps: source, copy, ghost (not yet),
 * or gap: a conflict leaves the operand without an element for it.
 */
function kindOfCell(index, shape, sizes, done) {
  const rank = index.length;
  let kind = "source";
  for (let at = 0; at < rank; at++) {
    const own = at - (rank - shape.length);
    const size = own < 0 ? 1 : shape[own];
    if (index[at] === null ? size === sizes[at] : index[at] < size) continue;
    if (rank - at > done) return "ghost";
    if (size !== 1) return "gap";
    kind = "copy";
  }
  return kind;
}

function drawOperand(at, shape, sizes, done, geometry, fresh) {
  const svg = startSvg(geometry, `Operand ${nameOf(at)} as it is read after ${done} steps`);
  svg.style.setProperty("--hue", `var(--${nameOf(at)})`);
  for (const {index, spot} of geometry.cells) {
    const kind = kindOfCell(index, shape, sizes, done);
    const rect = square(spot, kind);
    const before = kindOfCell(index, shape, sizes, done - 1);
    svg.append(rect);
    if (fresh && kind !== before) {
      const place = sizes.length - done;
      const [axis, distance] = geometry.pitch[place];
      rect.classList.add("fresh");
      rect.style.setProperty(axis ? "--dy" : "--dx", `${-distance}px`);
      rect.style.setProperty(axis ? "--dx" : "--dy", "0px");
    }
    if (kind === "ghost" || kind === "gap") continue;
    const position = positionAt(index, shape);
    const text = index.includes(null) ? "…" : position < 1000 ? String(position) : "";
    svg.append(write(spot, text, kind === "copy" ? "copied" : ""));
  }
  return svg;
}

/** The result: every cell in the colours of its operands, with the positions that meet there. */
function drawResult(view, geometry) {
  const svg = startSvg(geometry, `The result of shape ${tuple(view.result)}`);
  const parts = view.shapes.length;
  const width = CELL / parts;
  for (const {index, spot: [x, y]} of geometry.cells) {
    for (let at = 0; at < parts; at++) {
      const piece = element("rect", {x: x + at * width, y, width, height: CELL, class: "part"});
      piece.style.setProperty("--hue", `var(--${nameOf(at)})`);
      svg.append(piece);
      const position = positionAt(index, view.shapes[at]);
      if (!index.includes(null) && position < [0, 1000, 10, 0, 0][parts]) {
        svg.append(write([x + at * width, y], String(position), "copied", width));
      }
    }
    if (index.includes(null)) svg.append(write([x, y], "…", "copied"));
  }
  return svg;
}

function drawLegend() {
  const entry = (kind, words) => {
    const svg = element("svg", {width: 18, height: 18, viewBox: "-1 -1 24 24", "aria-hidden": true});
    svg.style.setProperty("--hue", "var(--a)");
    svg.append(square([0, 0], kind));
    return element("span", {}, svg, ` ${words}`);
  };
  return [entry("source", "in memory, with its position"), entry("copy", "the same element again"),
    entry("ghost", "not reached yet"), entry("gap", "a conflict: nothing to put there")];
}

// Part 3: the page.

const byId = (id) => document.getElementById(id);
const EXAMPLES = [["4, 1", "1, 3"], ["3, 4", "1"], ["2, 3", "2, 3"], ["3, 4", "2, 4"],
  ["32, 10, 64", "64"], ["8, 1, 6, 1", "7, 1, 5"], ["2, 3, 4", "2, 3"]];
const state = {view: null, step: 0, steps: 0};
let inputs = [];

/** Steps: 0 aligns, then one per dimension up to the first conflict, then the result. */
function countSteps(view) {
  const clash = view.steps.findIndex((step) => step.result === null);
  return clash < 0 ? view.steps.length + 1 : clash + 1;
}

function describe(view, step) {
  const head = `Step ${step} of ${state.steps}: `;
  if (step === 0) {
    const shown = view.shapes.map((shape, at) => `${nameOf(at)} ${tuple(shape)}`).join(" and ");
    return `${head}write the shapes ${shown} below each other, aligned at their last dimension.`;
  }
  if (step > view.steps.length) {
    return `${head}every dimension fits. The result has the shape ${tuple(view.result)}.`;
  }
  const {dim, text} = view.steps[step - 1];
  return `${head}dimension ${dim}: ${text.replaceAll("->", "→")}.`;
}

function drawTable(view, step) {
  const columns = [...view.steps].reverse();
  const marked = (column, kind) => [kind, -column.dim === step ? "now" : ""].join(" ").trim();
  const row = (name, cells) => element("tr", {}, element("th", {scope: "row"}, name), ...cells);
  const rows = view.shapes.map((_, at) => row(nameOf(at), columns.map((column) => {
    const done = -column.dim <= step;
    const rule = column.rules[at];
    const size = column.sizes[at] ?? "";
    const grown = done && (rule === "missing" || (rule === "stretched" && column.result !== null));
    const cell = element("td", {class: marked(column, done && rule === "conflict" ? "clash" : "")});
    if (grown) cell.append(element("span", {class: "was"}, `${size || "none"} → `));
    cell.append(grown ? String(column.result ?? 1) : String(size));
    return cell;
  })));
  rows.push(row("result", columns.map((column) => {
    const clash = column.result === null;
    const shown = -column.dim > step ? "" : clash ? "✕" : String(column.result);
    return element("td", {class: marked(column, clash && shown ? "clash" : "")}, shown);
  })));
  const heads = columns.map((column) => element("th", {scope: "col"}, String(column.dim)));
  return element("table", {}, element("thead", {}, element("tr", {},
    element("th", {scope: "col"}, "dimension"), ...heads)), element("tbody", {}, ...rows));
}

const count = (shape) => shape.reduce((all, size) => all * BigInt(size), 1n).toLocaleString("en");

function drawVerdict(view, step) {
  const box = element("div", {class: "verdict"});
  if (step < state.steps) {
    box.append(element("p", {class: "soft"}, "Go on to the last step for the result."));
  } else if (view.result === null) {
    box.classList.add("bad");
    box.append(element("p", {}, element("strong", {}, "The shapes do not fit.")),
      element("p", {}, "PyTorch raises RuntimeError: ", element("code", {}, view.error)),
      element("p", {}, view.advice));
  } else {
    box.append(element("p", {}, "Result ", element("strong", {class: "shape"}, tuple(view.result)),
      `, ${count(view.result)} element${count(view.result) === "1" ? "" : "s"}.`));
    view.shapes.forEach((shape, at) => box.append(element("p", {},
      `${nameOf(at)} keeps its ${count(shape)} in memory and is read with strides `,
      element("code", {}, tuple(view.strides[at])))));
  }
  return box;
}

function drawPictures(view, step, fresh) {
  const sizes = [...view.steps].reverse().map(({sizes: found, result}) =>
    result ?? Math.max(...found.map((size) => size ?? 1)));
  const geometry = makeGeometry(sizes);
  if (geometry === null) {
    return [element("p", {}, "There are too many dimensions to draw their cells.")];
  }
  if (!geometry.cells.length) {
    return [element("p", {}, "A size is 0: there are no elements to draw.")];
  }
  const figure = (words, svg) => element("figure", {}, element("figcaption", {}, words), svg);
  const done = Math.min(step, view.steps.length);
  const drawn = view.shapes.map((shape, at) => figure(`${nameOf(at)}: ${tuple(shape)}`,
    drawOperand(at, shape, sizes, done, geometry, fresh && done === step && done > 0)));
  if (view.result !== null && step === state.steps) {
    drawn.push(figure(`result: ${tuple(view.result)}, read from ${view.shapes.map((_, at) => nameOf(at)).join(", ")}`,
      drawResult(view, geometry)));
  }
  return drawn;
}

function goTo(step, fresh = true) {
  const forward = step > state.step;
  state.step = Math.min(Math.max(step, 0), state.steps);
  const {view} = state;
  byId("slider").max = state.steps;
  byId("slider").value = state.step;
  byId("slider").setAttribute("aria-valuetext", describe(view, state.step));
  byId("says").textContent = describe(view, state.step);
  // aria-disabled, since a disabled button would lose the focus of who steps with the keyboard.
  const atEnd = {first: state.step === 0, back: state.step === 0,
    next: state.step === state.steps, last: state.step === state.steps};
  for (const [id, is] of Object.entries(atEnd)) byId(id).setAttribute("aria-disabled", is);
  byId("summary").replaceChildren(drawTable(view, state.step), drawVerdict(view, state.step));
  byId("pictures").replaceChildren(...drawPictures(view, state.step, fresh && forward));
}

/** Reads the fields; what cannot be read is explained, and the last picture stays, dimmed. */
function readFields(step = 0) {
  const found = inputs.map((input) => parseShape(input.value));
  found.forEach(({wrong}, at) => {
    inputs[at].setAttribute("aria-invalid", wrong ? "true" : "false");
    byId(`wrong-${at}`).textContent = wrong ?? "";
  });
  const readable = found.every(({wrong}) => !wrong);
  for (const id of ["summary", "drawing"]) byId(id).classList.toggle("stale", !readable);
  byId("stale").hidden = readable;
  if (!readable) {
    const last = state.view?.shapes.map(tuple).join(" and ");
    byId("stale").textContent = last ? `Still showing ${last}.` : "";
    return;
  }
  state.view = explainBroadcast(found.map(({shape}) => shape));
  state.steps = countSteps(state.view);
  goTo(step, false);
}

function makeFields(texts) {
  byId("fields").replaceChildren(...texts.map((text, at) => {
    const chip = element("span", {class: "chip", "aria-hidden": true});
    const input = element("input", {type: "text", id: `shape-${at}`, autocomplete: "off",
      spellcheck: "false", "aria-describedby": `wrong-${at}`, value: text});
    const field = element("div", {class: "field"},
      element("label", {for: input.id}, chip, `Shape of ${nameOf(at)}`), input,
      element("p", {id: `wrong-${at}`, class: "wrong", "aria-live": "polite"}));
    field.style.setProperty("--hue", `var(--${nameOf(at)})`);
    input.addEventListener("input", () => readFields());
    return field;
  }));
  inputs = [...document.querySelectorAll("#fields input")];
  readFields();
}

function handleKey(event) {
  if (event.target.matches?.("input") || event.ctrlKey || event.altKey || event.metaKey) return;
  const moves = {ArrowLeft: state.step - 1, ArrowRight: state.step + 1, Home: 0,
    End: state.steps};
  if (!(event.key in moves) || !state.view) return;
  event.preventDefault();
  goTo(moves[event.key]);
}

function startPage() {
  byId("legend").replaceChildren(...drawLegend());
  byId("examples").replaceChildren(...EXAMPLES.map((texts) => {
    const button = element("button", {type: "button"}, texts.map((t) => `(${t})`).join(" "));
    button.addEventListener("click", () => makeFields(texts));
    return button;
  }));
  byId("first").addEventListener("click", () => goTo(0));
  byId("back").addEventListener("click", () => goTo(state.step - 1));
  byId("next").addEventListener("click", () => goTo(state.step + 1));
  byId("last").addEventListener("click", () => goTo(state.steps));
  byId("slider").addEventListener("input", (event) => goTo(Number(event.target.value)));
  document.addEventListener("keydown", handleKey);
  makeFields(JSON.parse(byId("given").textContent));
}

startPage();
