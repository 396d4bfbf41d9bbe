// The token view: queries left, keys right, and lines between them as wide as the weights.

const LINE_HEIGHT = 20;
const WINDOW = 64; // positions in sight at once
const FAR_KEYS = 6; // places kept for keys outside of the window
const MOST_LINES = 600;
const WIDEST_LINE = 12;

function svg(name, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return parent ? parent.appendChild(node) : node;
}

class TokenView {
  /** `parts`: onQuery(query shown or null, query chosen or null, its lines); note, an element for a sentence. */
  constructor(box, parts) {
    Object.assign(this, parts);
    this.box = box;
    this.chosen = null;
    this.hovered = null;
    this.first = 0;
    box.addEventListener("pointermove", (event) => this.hover(this.rowAt(event)));
    box.addEventListener("pointerleave", () => this.hover(null));
    box.addEventListener("click", (event) => {
      const row = this.rowAt(event);
      if (row !== null) this.choose(row === this.chosen ? null : row);
    });
    box.addEventListener("keydown", (event) => this.key(event));
  }

  show(head, axes, least, chosen) {
    Object.assign(this, { head, least, ...axes });
    this.most = Math.max(Math.abs(head.entry.low ?? 0), Math.abs(head.entry.high ?? 0)) || 1;
    this.chosen = chosen !== null && chosen < this.rows.count ? chosen : null;
    this.hovered = null;
    this.first = Math.min(this.first, Math.max(0, this.rows.count - WINDOW));
    this.reveal();
    this.draw();
  }

  get query() {
    return this.hovered ?? this.chosen;
  }

  /** Moves the window so that the chosen query is well inside of it. */
  reveal() {
    if (this.chosen === null) return;
    const last = Math.max(0, this.rows.count - WINDOW);
    const outside = this.chosen < this.first + 4 || this.chosen >= this.first + WINDOW - 4;
    if (outside) this.first = Math.max(0, Math.min(last, this.chosen - WINDOW / 2));
  }

  /** The keys in sight: those about the queries in sight, by position where positions are known. */
  firstKey() {
    const { rows, columns } = this;
    if (columns.count <= WINDOW) return 0;
    const middle = Math.min(rows.count - 1, this.first + Math.min(WINDOW, rows.count) / 2);
    const placed = rows.positions || rows.count === columns.count;
    const centre = placed ? columns.nearest(rows.position(Math.floor(middle))) : (middle / rows.count) * columns.count;
    return Math.max(0, Math.min(columns.count - WINDOW, Math.round(centre - WINDOW / 2)));
  }

  /** All that is needed to draw: lines in sight, keys out of sight that get many, and how many there are. */
  gather() {
    const end = Math.min(this.rows.count, this.first + WINDOW);
    const firstKey = this.firstKey();
    const lastKey = Math.min(this.columns.count, firstKey + WINDOW);
    const lines = [];
    const away = new Map();
    const [from, to] = this.query === null ? [this.first, end] : [this.query, this.query + 1];
    for (let row = from; row < to; row++) {
      this.head.finest.each(row, 0, this.columns.count, (column, value) => {
        const share = this.head.weights ? value : Math.abs(value) / this.most;
        if (!(share > 0) || Math.abs(value) < this.least) return;
        const line = { row, column, value, share };
        if (column >= firstKey && column < lastKey) lines.push(line);
        else away.set(column, (away.get(column) ?? []).concat(line));
      });
    }
    const total = (list) => list.reduce((sum, { share }) => sum + share, 0);
    const far = [...away].sort((a, b) => total(b[1]) - total(a[1])).slice(0, FAR_KEYS);
    far.sort((a, b) => a[0] - b[0]);
    const inFar = far.flatMap(([, list]) => list);
    const all = [...lines, ...inFar].sort((a, b) => a.share - b.share);
    const leftOut = [...away.values()].reduce((sum, list) => sum + list.length, 0) - inFar.length;
    return { firstKey, lastKey, far: far.map(([column]) => column), lines: all, away: leftOut };
  }

  /** Draws anew: the window, its queries, and all that depends on the query chosen. */
  draw() {
    const width = Math.min(this.box.clientWidth, 760);
    const slots = this.columns.count > WINDOW ? FAR_KEYS + 1 : 0;
    const queries = Math.min(WINDOW, this.rows.count);
    const height = LINE_HEIGHT * (Math.max(queries, Math.min(WINDOW, this.columns.count) + slots) + 1.6);
    const side = Math.round(Math.min(170, width * 0.29));
    const viewBox = `0 0 ${width} ${height}`;
    const canvas = svg("svg", { width, height, viewBox, class: "tokens", "aria-hidden": "true" });
    const [lines, left, keys] = ["lines", "queries", "keys"].map((name) => svg("g", { class: name }, canvas));
    this.groups = { lines, queries: left, keys };
    const limit = Math.max(6, Math.floor(side / 7.5));
    this.places = { left: side, right: width - side - 46, top: LINE_HEIGHT * 1.2, slots, limit, width };
    this.drawQueries(left, this.first + queries);
    this.box.classList.toggle("long", this.rows.count > WINDOW || this.columns.count > WINDOW);
    this.box.replaceChildren(canvas);
    this.refresh();
    this.centre();
  }

  /** Scrolls the box so that the chosen query is in sight. */
  centre() {
    if (this.chosen === null) return;
    const y = this.places.top + (this.chosen - this.first) * LINE_HEIGHT;
    const { scrollTop, clientHeight } = this.box;
    const inside = y >= scrollTop + LINE_HEIGHT && y <= scrollTop + clientHeight - 2 * LINE_HEIGHT;
    if (!inside) this.box.scrollTop = y - clientHeight / 2;
  }

  /** Draws what depends on the query chosen; its text stays, so that a pointer on it stays on it. */
  refresh() {
    const { slots } = this.places;
    const parts = this.gather();
    const place = (column) => (parts.far.includes(column)
      ? parts.far.indexOf(column) : column - parts.firstKey + slots);
    for (const text of this.groups.queries.querySelectorAll(".token")) {
      text.classList.toggle("chosen", Number(text.dataset.row) === this.query);
    }
    this.groups.lines.replaceChildren();
    this.groups.keys.replaceChildren();
    this.drawLines(this.groups.lines, parts.lines.slice(-MOST_LINES), place);
    this.drawKeys(this.groups.keys, parts, place);
    this.explain(parts);
    this.onQuery(this.query, this.chosen, parts.lines);
  }

  drawLines(group, lines, place) {
    const { left, right, top } = this.places;
    const middle = (left + right) / 2;
    for (const { row, column, value, share } of lines) {
      const from = top + (row - this.first + 0.5) * LINE_HEIGHT;
      const to = top + (place(column) + 0.5) * LINE_HEIGHT;
      svg("path", {
        class: value < 0 ? "line below" : "line",
        d: `M${left + 6} ${from}C${middle} ${from} ${middle} ${to} ${right - 6} ${to}`,
        "stroke-width": (share * WIDEST_LINE).toFixed(4),
        "stroke-opacity": (0.35 + 0.6 * Math.min(1, share)).toFixed(3),
        "data-row": row, "data-column": column,
      }, group);
    }
  }

  drawQueries(group, end) {
    const { left, top, limit } = this.places;
    const title = svg("text", { class: "axis", x: left, y: LINE_HEIGHT * 0.7, "text-anchor": "end" }, group);
    title.textContent = this.rows.word;
    for (let row = this.first; row < end; row++) {
      const y = top + (row - this.first + 0.5) * LINE_HEIGHT;
      const attributes = { class: "token query", x: left, y, "text-anchor": "end", "dominant-baseline": "central" };
      svg("text", { ...attributes, "data-row": row }, group).textContent = this.rows.label(row, limit);
    }
  }

  drawKeys(group, parts, place) {
    const { right, top, slots, limit, width } = this.places;
    svg("text", { class: "axis", x: right + 2, y: LINE_HEIGHT * 0.7 }, group).textContent = this.columns.word;
    const values = new Map(this.query === null ? [] : parts.lines.map((line) => [line.column, line]));
    const shown = [...parts.far];
    for (let column = parts.firstKey; column < parts.lastKey; column++) shown.push(column);
    for (const column of shown) {
      const y = top + (place(column) + 0.5) * LINE_HEIGHT;
      const line = values.get(column);
      const dim = this.query !== null && !line ? " dim" : "";
      if (line) {
        const opacity = (0.12 + 0.3 * Math.min(1, line.share)).toFixed(3);
        const box = { x: right - 3, y: y - 8, width: width - right + 2, height: 16, rx: 3, "fill-opacity": opacity };
        svg("rect", { class: line.value < 0 ? "key below" : "key", ...box }, group);
      }
      const attributes = { class: `token key-name${dim}`, x: right + 2, y, "dominant-baseline": "central" };
      svg("text", { ...attributes, "data-column": column }, group).textContent = this.columns.label(column, limit);
      if (!line) continue;
      const end = { class: "amount", x: width - 4, y, "text-anchor": "end", "dominant-baseline": "central" };
      svg("text", end, group).textContent = number(line.value, this.head.finest.rough ? 2 : 3);
    }
    if (slots) {
      const y = top + (slots - 0.5) * LINE_HEIGHT;
      svg("line", { class: "break", x1: right, x2: width, y1: y, y2: y }, group);
      const title = { class: "axis", x: width - 4, y: LINE_HEIGHT * 0.7, "text-anchor": "end" };
      if (width > 480) svg("text", title, group).textContent = "first the largest out of sight";
    }
  }

  /** What the picture leaves out. */
  explain({ lines, away }) {
    const said = [];
    const all = counted(lines.length, "line");
    if (lines.length > MOST_LINES) said.push(`The ${whole(MOST_LINES)} largest of ${all} are drawn.`);
    if (away) said.push(`Left out: ${counted(away, "line")} to ${this.columns.many} out of sight.`);
    this.note.textContent = said.join(" ");
  }

  rowAt(event) {
    const canvas = this.box.firstElementChild;
    if (!canvas || !this.places) return null;
    const box = canvas.getBoundingClientRect();
    const row = this.first + Math.floor((event.clientY - box.top - this.places.top) / LINE_HEIGHT);
    const inside = event.clientX - box.left < this.places.left + 12 && row >= this.first;
    return inside && row < Math.min(this.rows.count, this.first + WINDOW) ? row : null;
  }

  hover(row) {
    if (row === this.hovered) return;
    this.hovered = row;
    this.refresh();
  }

  choose(row) {
    this.chosen = row === null ? null : Math.max(0, Math.min(this.rows.count - 1, row));
    this.hovered = null;
    this.reveal();
    this.draw();
  }

  scroll(rows) {
    const last = Math.max(0, this.rows.count - WINDOW);
    this.first = Math.max(0, Math.min(last, this.first + rows));
    this.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.chosen ?? this.first - 1;
    const moves = {
      ArrowUp: Math.max(0, at - 1), ArrowDown: at + 1, Home: 0, End: this.rows.count - 1,
      PageUp: at - WINDOW / 2, PageDown: at + WINDOW / 2, Backspace: null, Delete: null,
    };
    if (!(event.key in moves)) return;
    this.choose(moves[event.key]);
    event.preventDefault();
    event.stopPropagation();
  }
}
