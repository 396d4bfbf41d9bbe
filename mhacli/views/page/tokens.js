// The token view: queries left, keys right, and lines between them as wide as the weights.

const LINE_HEIGHT = 20;
const WINDOW = 64; // positions in sight at once
const FAR_KEYS = 6; // places kept for keys outside of the window
const MOST_LINES = 600;
const WIDEST_LINE = 12;
const SMALL_SHARE = 0.2; // where no line has as much, they are drawn wider than they are

class TokenView {
  /** `parts`: onQuery(query shown or null, query chosen or null, its lines); note, an element for a sentence. */
  constructor(box, parts) {
    Object.assign(this, parts);
    this.box = box;
    const pen = make("canvas").getContext("2d");
    pen.font = FONT.replace("11px", "12.5px");
    this.measure = (text) => pen.measureText(text).width;
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
    box.addEventListener("scroll", () => {
      if (this.places?.slots) this.refresh(this.parts); // the keys out of sight stay at the top
    });
  }

  show(head, axes, least, chosen) {
    Object.assign(this, { head, least, ...axes });
    this.most = Math.max(Math.abs(head.entry.low ?? 0), Math.abs(head.entry.high ?? 0)) || 1;
    this.chosen = chosen !== null && chosen < this.rows.count ? chosen : null;
    this.hovered = null;
    this.first = Math.min(this.first, Math.max(0, this.rows.count - WINDOW));
    this.reserved = null;
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
  gather(query = this.query) {
    const end = Math.min(this.rows.count, this.first + WINDOW);
    const firstKey = this.firstKey();
    const lastKey = Math.min(this.columns.count, firstKey + WINDOW);
    const lines = [];
    const away = new Map();
    const [from, to] = query === null ? [this.first, end] : [query, query + 1];
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

  /** How many places keys out of sight need, of whatever query in sight. */
  slots() {
    const key = `${this.first} ${this.least}`;
    if (this.columns.count <= WINDOW) return 0;
    if (this.reserved?.key !== key) this.reserved = { key, far: this.gather(null).far.length };
    return this.reserved.far && this.reserved.far + 1;
  }

  /** Draws anew: the window, its queries, and all that depends on the query chosen. */
  draw() {
    const width = Math.min(this.box.clientWidth, 760);
    const slots = this.slots();
    const queries = Math.min(WINDOW, this.rows.count);
    const height = LINE_HEIGHT * (Math.max(queries, Math.min(WINDOW, this.columns.count) + slots) + 1.6);
    const side = Math.round(Math.min(170, width * 0.29));
    const viewBox = `0 0 ${width} ${height}`;
    const canvas = svg("svg", { width, height, viewBox, class: "tokens", "aria-hidden": "true" });
    const [lines, left, keys] = ["lines", "queries", "keys"].map((name) => svg("g", { class: name }, canvas));
    this.groups = { lines, queries: left, keys };
    this.places = { left: side, right: width - side - 46, top: LINE_HEIGHT * 1.2, slots, width };
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
  refresh(parts = this.gather()) {
    const { slots } = this.places;
    this.parts = parts;
    this.pinned = this.box.scrollTop / LINE_HEIGHT;
    const place = (column) => (parts.far.includes(column)
      ? parts.far.indexOf(column) + this.pinned : column - parts.firstKey + slots);
    const most = parts.lines.at(-1)?.share ?? 1;
    this.times = most < SMALL_SHARE ? 1 / most : 1;
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
        "stroke-width": (share * this.times * WIDEST_LINE).toFixed(4),
        "stroke-opacity": (0.35 + 0.6 * Math.min(1, share * this.times)).toFixed(3),
        "data-row": row, "data-column": column,
      }, group);
    }
  }

  drawQueries(group, end) {
    const { left, top } = this.places;
    const title = svg("text", { class: "axis", x: left, y: LINE_HEIGHT * 0.7, "text-anchor": "end" }, group);
    title.textContent = this.rows.word;
    for (let row = this.first; row < end; row++) {
      const y = top + (row - this.first + 0.5) * LINE_HEIGHT;
      const attributes = { class: "token query", x: left, y, "text-anchor": "end", "dominant-baseline": "central" };
      svg("text", { ...attributes, "data-row": row }, group).textContent = this.rows.fitted(row, left - 4, this.measure);
    }
  }

  drawKeys(group, parts, place) {
    const { right, top, slots, width } = this.places;
    const values = new Map(this.query === null ? [] : parts.lines.map((line) => [line.column, line]));
    for (let key = parts.firstKey; key < parts.lastKey; key++) this.drawKey(group, key, place(key), values.get(key));
    const above = slots ? this.pinned * LINE_HEIGHT : 0;
    const y = above + LINE_HEIGHT * 0.7;
    if (slots) {
      // What stays at the top covers what is scrolled under it.
      const end = top + (slots - 0.5) * LINE_HEIGHT;
      svg("rect", { class: "ground", x: right - 4, y: above, width: width - right + 4, height: end }, group);
      svg("line", { class: "break", x1: right, x2: width, y1: above + end, y2: above + end }, group);
      const title = { class: "axis", x: width - 4, y, "text-anchor": "end" };
      if (width > 480) svg("text", title, group).textContent = "first the largest out of sight";
    }
    svg("text", { class: "axis", x: right + 2, y }, group).textContent = this.columns.word;
    for (const key of parts.far) this.drawKey(group, key, place(key), values.get(key));
  }

  /** A key at its place, with the number of its line if a query is shown. */
  drawKey(group, column, place, line) {
    const { right, top, width } = this.places;
    const y = top + (place + 0.5) * LINE_HEIGHT;
    if (line) {
      const opacity = (0.12 + 0.3 * Math.min(1, line.share * this.times)).toFixed(3);
      const box = { x: right - 3, y: y - 8, width: width - right + 2, height: 16, rx: 3, "fill-opacity": opacity };
      svg("rect", { class: line.value < 0 ? "key below" : "key", ...box }, group);
    }
    const dim = this.query !== null && !line ? " dim" : "";
    const attributes = { class: `token key-name${dim}`, x: right + 2, y, "dominant-baseline": "central" };
    const name = svg("text", { ...attributes, "data-column": column }, group);
    name.textContent = this.columns.fitted(column, width - right - (line ? 54 : 8), this.measure);
    if (!line) return;
    const end = { class: "amount", x: width - 4, y, "text-anchor": "end", "dominant-baseline": "central" };
    svg("text", end, group).textContent = number(line.value, this.head.finest.rough ? 2 : 3);
  }

  /** What the picture leaves out. */
  explain({ lines, away }) {
    const said = [];
    const all = counted(lines.length, "line");
    if (lines.length > MOST_LINES) said.push(`The ${whole(MOST_LINES)} largest of ${all} are drawn.`);
    if (this.times > 1) said.push(`Lines are drawn ${number(this.times, 2)}× wider.`);
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
