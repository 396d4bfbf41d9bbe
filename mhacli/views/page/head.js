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

  get canTokens() {
    return this.app.data.axes[1] === "key";
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

  about({ d, dump, item, head, title }) {
    $("head-title").textContent = this.app.places.items.length > 1 ? `${title} · item ${item.index}` : title;
    for (const button of document.querySelectorAll("[data-view]")) {
      button.setAttribute("aria-pressed", button.dataset.view === this.app.state.view);
      button.hidden = button.dataset.view === "tokens" && !this.canTokens;
    }
    const body = $("metrics").tBodies[0];
    body.replaceChildren();
    for (const { name, meaning } of this.app.data.metrics) {
      const row = body.insertRow();
      const label = row.appendChild(document.createElement("th"));
      label.scope = "row";
      label.textContent = visible(name);
      label.title = visible(meaning);
      row.insertCell().textContent = number(head.metrics[name], 4);
      const why = body.insertRow().insertCell();
      why.colSpan = 2;
      why.className = "meaning";
      why.textContent = visible(meaning);
    }
    $("metrics").hidden = !this.app.data.metrics.length;
    $("caption").textContent = visible(dump.caption ?? "");
    $("notes").replaceChildren(...noteItems(dump.notes));
    this.say("");
    this.dump = d;
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
      height: this.app.state.view === "compare" ? 480 : 700,
      onCursor: (row, column) => this.say(describe(row, column)),
      onChoose: (row, column, byKey) => {
        if (byKey && this.canTokens) this.app.change({ view: "tokens", query: row });
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
    const style = () => this.app.style(place.head, head);
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
    if (query === null) return this.say(`${rows.size} · all lines`);
    const digits = this.tokens.head.finest.rough ? 2 : 3;
    const written = ({ column, value }) => `${columns.label(column, 60)} ${number(value, digits)}`;
    const list = lines.slice(-5).reverse().map(written);
    let none = "no key at or above the minimum";
    this.tokens.head.finest.each(query, 0, columns.count, (_, value) => {
      if (value !== value) none = `${this.app.word} is not a number`;
    });
    return this.say(`${rows.named(query)} → ${list.join(" · ") || none}`);
  }

  async showCompare(place, head, turn) {
    this.fillOthers(place);
    const { other } = this.app.state;
    $("three").hidden = true;
    const reason = other ? this.unlike(place, other) : "There is no other head to compare with.";
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
    const style = () => styleOf(this.app.palette, scale, 0, devicePixelRatio, this.app.marks);
    const one = (box, at, opened) => this.plot(
      box, new HeadSource(opened, signed), () => this.app.style(at.head, opened), this.named(at), describe);
    one($("plot-a"), place, head);
    one($("plot-b"), other, second);
    this.plot($("plot-difference"), difference, style, "B minus A", describe);
    this.app.bar($("difference-legend"), scale, "B − A");
    if (this.frame.cursor) this.say(describe(...this.frame.cursor));
  }

  named(place) {
    return this.app.places.items.length > 1 ? `${place.title} · item ${place.item.index}` : place.title;
  }

  /** The choice of a second head; at first the next one. */
  fillOthers(place) {
    const { places, state } = this.app;
    if (!state.other) {
      const all = places.of(state.item);
      const next = all[(all.indexOf(place) + 1) % all.length];
      state.other = next !== place ? next : places.all.find((one) => one !== place) ?? null;
    }
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
    const values = [a, b].map(({ cell }) => {
      if (cell.kind === "value") return cell.value;
      return head.weights && cell.kind !== "nan" ? 0 : NaN;
    });
    const known = a.cell.kind === "value" || b.cell.kind === "value";
    const difference = known ? values[1] - values[0] : NaN;
    const exact = [a, b].every(({ cell }) => cell.kind !== "below") && !head.finest.rough && !second.finest.rough;
    const sign = difference > 0 ? "+" : "";
    const end = Number.isNaN(difference) ? "" : ` · difference ${exact ? "" : "≈ "}${sign}${number(difference, 3)}`;
    return `${this.where(head, row, column)} · A ${a.text} · B ${b.text}${end}`;
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

function noteItems(notes) {
  return (notes ?? []).map((note) => {
    const item = document.createElement("li");
    item.textContent = visible(note);
    return item;
  });
}

/** Fills a choice with [value, text] pairs. */
function fillSelect(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => new Option(text, key, false, key === value)));
}
