// Elements of the page: by their names, and new ones.

const $ = (id) => document.getElementById(id);

/** A new element with a text, the last one of its parent. */
function make(name, parent = null, text = "") {
  const node = document.createElement(name);
  node.textContent = text;
  parent?.append(node);
  return node;
}

function svg(name, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return parent ? parent.appendChild(node) : node;
}

function noteItems(notes) {
  return (notes ?? []).map((note) => make("li", null, visible(note)));
}

/** Fills a choice with [value, text] pairs. */
function fillSelect(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => new Option(text, key, false, key === value)));
}
