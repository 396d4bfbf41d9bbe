// The view of one head: its matrix, its tokens, and its difference from another head.

class HeadView {
  /** `app` has: data, places, store, state, style(head, opened), change(parts). */
  constructor(app) {
    this.app = app;
    this.shown = null;
    this.tokens = new TokenView($("tokens"), {
      note: $("token-note"),
      onQuery: (query, chosen, lines) => this.tellQuery(query, chosen, lines),
    });
    $("earlier").addEventListener("click", () => this.tokens.scroll(-WINDOW / 2));
    $("later").addEventListener("click", () => this.tokens.scroll(WINDOW / 2));
    $("closer").addEventListener("click", () => this.plots[0]?.zoomBy(0.5));
    $("wider").addEventListener("click", () => this.plots[0]?.zoomBy(2));
    $("whole").addEventListener("click", () => this.frame?.reset());
    this.plots = [];
  }

  /** Which views there are. */
  get can() {
    return { matrix: true, tokens: this.app.data.axes[1] === "key", compare: this.app.places.all.length > 1 };
  }

  /** Shows the state's head in the state's view; one that is overtaken by the next one asked for is dropped. */
  async show(focus = false) {
    const { place, view } = this.app.state;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const pointing = document.activeElement?.matches(".over, #tokens"); // what is drawn anew keeps the keys
    this.about(place);
    try {
      const head = await this.app.store.open(place.item, place.head);
      if (turn !== this.turn) return;
      this.app.tellBroken();
      this.axes = this.app.axesOf(place.item);
      for (const name of VIEWS) $(`${name}-view`).hidden = name !== view;
      this.plots = [];
      if (view === "matrix") this.showMatrix(place, head);
      else if (view === "tokens") this.showTokens(head);
      else await this.showCompare(place, head, turn);
      $("zoom-tools").hidden = !this.plots.length || !this.frame.zoomable;
      $("head-view").dataset.shown = `${place.key} ${view}`;
      if (focus || pointing) (this.plots[0]?.over ?? $("tokens")).focus({ preventScroll: true });
    } catch (error) {
      if (turn !== this.turn) return;
      this.plots = [];
      for (const id of ["matrix-view", "tokens-view", "compare-view", "zoom-tools"]) $(id).hidden = true;
      delete $("head-view").dataset.shown;
      fail(`This head cannot be shown: ${error.message}`);
    }
  }

  about(place) {
    const { dump } = place;
    $("head-title").textContent = this.named(place);
    for (const button of document.querySelectorAll("[data-view]")) {
      button.setAttribute("aria-pressed", button.dataset.view === this.app.state.view);
      button.hidden = !this.can[button.dataset.view];
    }
    $("sides").classList.toggle("wide", this.app.state.view === "compare"); // three plots need all of the room
    this.listMetrics(place);
    $("caption").textContent = this.app.captions > 1 ? visible(dump.caption ?? "") : "";
    $("notes").replaceChildren(...noteItems(dump.notes));
    this.say("");
  }

  /** The metrics of the head, or of both that are compared. */
  listMetrics({ dump, item }) {
    const { heads, data } = this.app;
    const over = dump.items.length > 1 || item.rows.positions ? " (over all items and queries)" : "";
    $("metrics-name").textContent = `Metrics${over}`;
    const [body, top] = [$("metrics").tBodies[0], $("metrics").tHead];
    body.replaceChildren();
    top.replaceChildren();
    const heading = (row, scope, text) => {
      const cell = make("th", row, text);
      cell.scope = scope;
      return cell;
    };
    if (heads.length > 1) {
      const names = top.insertRow();
      names.insertCell();
      for (const name of "AB") heading(names, "col", name);
    }
    for (const { name, meaning } of data.metrics) {
      const row = body.insertRow();
      make("span", heading(row, "row", visible(name)), visible(meaning)).className = "meaning";
      for (const head of heads) row.insertCell().textContent = number(head.metrics[name], 4);
    }
    $("metrics").hidden = !data.metrics.length;
  }

  say(text) {
    $("live").textContent = text;
  }

  /** The window of a head: kept while heads of the same shape follow each other. */
  frameFor(head) {
    const { rows, columns } = head.item;
    const old = this.frame;
    const same = old && old.rows === rows.count && old.columns === columns.count;
    if (!same) this.frame = new Frame(rows.count, columns.count);
    this.frame.plots = [];
    return this.frame;
  }

  plot(box, source, style, label, describe) {
    const plot = new MatrixPlot(box, {
      frame: this.frame, source, style, label, rows: this.axes.rows, columns: this.axes.columns,
      height: this.app.state.view === "compare" ? 600 : 960,
      onCursor: (row, column) => this.say(describe(row, column)),
      onChoose: (row, column, byKey) => {
        if (byKey && this.can.tokens) this.app.change({ view: "tokens", query: row });
        else this.app.state.query = row;
      },
      onView: ({ view }) => this.tellSpan(view),
    });
    this.plots.push(plot);
    return plot;
  }

  tellSpan({ top, bottom, left, right }) {
    const { rows, columns } = this.axes;
    const inside = (low, high) => [Math.floor(low + 1e-9), Math.ceil(high - 1e-9)];
    $("span").textContent = `${rows.span(...inside(top, bottom))} · ${columns.span(...inside(left, right))}`;
  }

  showMatrix(place, head) {
    this.frameFor(head);
    const source = new HeadSource(head, this.app.data.signed);
    const label = `${this.app.word} of ${place.title}: ${this.axes.rows.size} by ${this.axes.columns.size}`;
    const style = () => this.app.style();
    this.plot($("matrix"), source, style, label, (row, column) => this.describe(head, row, column));
    if (this.frame.cursor) this.say(this.describe(head, ...this.frame.cursor));
  }

  showTokens(head) {
    const { exact } = head.finest;
    $("tokens").hidden = $("token-tools").hidden = !exact;
    if (!exact) {
      const [high, wide] = head.finest.factor;
      const held = `only the largest of each ${high} × ${wide} cells`;
      $("token-note").textContent = `This page holds ${held}: too few to draw lines.`;
      return;
    }
    $("token-tools").hidden = this.axes.rows.count <= WINDOW;
    this.tokens.show(head, this.axes, this.app.state.least, this.app.state.query);
  }

  /** Says what a query gives its weights to. */
  tellQuery(query, chosen, lines) {
    const { rows, columns } = this.axes;
    const { first } = this.tokens;
    $("token-span").textContent = rows.span(first, Math.min(rows.count, first + WINDOW));
    if (this.app.state.query !== chosen) this.app.change({ query: chosen }, true);
    if (query === null) {
      if (!lines.length) $("token-note").textContent = `No lines: no ${this.app.word} at or above the minimum.`;
      return this.say(`${rows.size} · all lines`);
    }
    const digits = this.tokens.head.finest.rough ? 2 : 3;
    const written = ({ column, value }) => `${columns.label(column, 60)} ${number(value, digits)}`;
    const list = lines.slice(-5).reverse().map(written);
    let none = "no key at or above the minimum";
    this.tokens.head.finest.each(query, 0, columns.count, (_, value) => {
      if (value !== value) none = `${this.app.word} is not a number`;
    });
    if (!list.length) $("token-note").textContent = `No lines: ${none}.`;
    return this.say(`${rows.named(query)} → ${list.join(" · ") || none}`);
  }

  async showCompare(place, head, turn) {
    this.fillOthers();
    const { other } = this.app.state;
    $("three").hidden = true;
    const reason = this.unlike(place, other);
    $("compare-note").textContent = reason ?? "";
    $("compare-note").hidden = !reason;
    if (reason) return;
    const second = await this.app.store.open(other.item, other.head);
    if (turn !== this.turn) return;
    if (String(second.finest.factor) !== String(head.finest.factor)) {
      $("compare-note").textContent = "The page holds these heads at different resolutions: they cannot be subtracted.";
      $("compare-note").hidden = false;
      return;
    }
    this.drawCompare(place, head, other, second);
  }

  drawCompare(place, head, other, second) {
    $("three").hidden = false;
    this.frameFor(head);
    const { signed } = this.app.data;
    const difference = new DifferenceSource(head, second);
    const scale = new Scale({ low: 0, high: difference.most() || 1, signed: true });
    const describe = (row, column) => this.describePair(head, second, row, column);
    $("name-a").textContent = `A: ${this.named(place)}`;
    $("name-b").textContent = `B: ${this.named(other)}`;
    $("name-difference").textContent = "B − A";
    const floor = Math.max(head.floor, second.floor);
    $("compare-note").textContent = `Weights that are smaller than the page holds count as 0 in B − A.`;
    $("compare-note").hidden = !floor;
    const style = () => styleOf(this.app.palette, scale, 0, devicePixelRatio, this.app.marks);
    const one = (name, box, at, opened) => this.plot(
      box, new HeadSource(opened, signed), () => this.app.style(), `${name}: ${this.app.word} of ${this.named(at)}`, describe);
    one("A", $("plot-a"), place, head);
    one("B", $("plot-b"), other, second);
    this.plot($("plot-difference"), difference, style, "B minus A", describe);
    this.app.bar($("difference-legend"), scale, "B − A", difference.costly);
    if (this.frame.cursor) this.say(describe(...this.frame.cursor));
  }

  named(place) {
    return this.app.places.items.length > 1 ? `${place.title} · item ${place.item.index}` : place.title;
  }

  /** The choice of a second head. */
  fillOthers() {
    const { places, state } = this.app;
    const item = state.other?.item.index ?? state.item;
    fillSelect($("other"), places.of(item).map(({ key, title }) => [key, title]), state.other?.key);
    fillSelect($("other-item"), places.items.map((index) => [String(index), String(index)]), String(item));
    $("other-item-box").hidden = places.items.length < 2;
  }

  /** Why two heads cannot be subtracted, or null. */
  unlike(place, other) {
    const shape = ({ item }) => `${whole(item.rows.count)} × ${whole(item.columns.count)}`;
    if (shape(place) === shape(other)) return null;
    const both = `${this.named(place)} has ${shape(place)} cells and ${this.named(other)} has ${shape(other)}`;
    return `${both}: only matrices of one shape can be subtracted.`;
  }

  /** `query 9 it → key 8 because`, or the blocks of both where only those are known. */
  where(head, row, column) {
    const { rows, columns } = this.axes;
    const [high, wide] = head.finest.factor;
    if (head.finest.exact) return `${rows.named(row)} → ${columns.named(column)}`;
    const block = (axis, at, size) => {
      const first = Math.floor(at / size) * size;
      return axis.span(first, Math.min(axis.count, first + size)).replace(/ of [\d,]+$/, "");
    };
    return `${block(rows, row, high)} → ${block(columns, column, wide)}`;
  }

  /** What a cell holds, and the same in words. */
  amount(head, row, column) {
    const cell = head.cell(row, column);
    const { rough } = head.finest;
    const words = {
      hidden: () => "hidden by a mask",
      nan: () => "not a number",
      below: () => `< ${number(cell.value, 2)}`,
      value: () => (rough ? `≈ ${number(cell.value, 2)}` : number(cell.value, 3)),
    };
    return { cell, text: words[cell.kind]() };
  }

  describe(head, row, column) {
    const { cell, text } = this.amount(head, row, column);
    const where = this.where(head, row, column);
    if (cell.kind === "hidden") return `${where} · ${text}`;
    if (cell.kind === "nan") return `${where} · ${this.app.word} is ${text}`;
    const largest = head.finest.exact || cell.kind === "below" ? "" : "largest ";
    const score = cell.kind === "value" && head.weights ? head.score(row, cell.value) : null;
    // A weight that is a few percent off leaves its logarithm some hundredths off.
    const shown = score === null ? "" : ` · score ${head.finest.rough ? `≈ ${score.toFixed(2)}` : number(score, 4)}`;
    return `${where} · ${largest}${this.app.word} ${text}${shown}`;
  }

  describePair(head, second, row, column) {
    const [a, b] = [head, second].map((one) => this.amount(one, row, column));
    // From where to where each weight can lie: one that is left out is somewhere between 0 and its bound.
    const [least, most] = [0, 1].map((end) => [a, b].map(({ cell }) => {
      if (cell.kind === "value" || (cell.kind === "below" && end)) return cell.value;
      return head.weights && cell.kind !== "nan" ? 0 : NaN;
    }));
    const [low, high] = [least[1] - most[0], most[1] - least[0]];
    const about = head.finest.rough || second.finest.rough ? "≈ " : "";
    const written = (value, digits) => `${value > 0 ? "+" : ""}${number(value, digits)}`;
    const range = low === high ? written(low, 3) : `${written(low, 2)} to ${written(high, 2)}`;
    const none = Number.isNaN(low) || (a.cell.kind === "hidden" && b.cell.kind === "hidden");
    return `${this.where(head, row, column)} · A ${a.text} · B ${b.text}${none ? "" : ` · difference ${about}${range}`}`;
  }

  /** Draws again: after another width, other colours, another minimum or scale. */
  redraw(layout) {
    if (this.app.state.view === "tokens" && this.tokens.head) {
      this.tokens.least = this.app.state.least;
      this.tokens.draw();
    }
    for (const plot of this.plots) {
      if (layout) plot.layout();
      else plot.draw();
    }
  }
}
