// The page as a whole: its controls, its keys, its colours, and the way between the grid and a head.

class App {
  constructor(data) {
    this.data = data;
    this.places = new Places(data);
    this.store = new Store(data);
    this.word = data.weights ? "weight" : visible(data.what).replaceAll("_", " ").replace(/scores$/, "score");
    this.palette = { sequential: ramp(data.colors.sequential), signed: ramp(data.colors.signed) };
    this.axes = new Map();
    this.state = stateFrom(location.hash, this.places);
    this.turn();
    this.head = new HeadView(this);
    this.grid = new Grid($("grid"), {
      store: this.store,
      open: (place) => this.change({ place, view: this.state.view }),
      caption: ({ head }) => {
        const { metric } = this.state;
        return metric ? `${visible(metric)} ${number(head.metrics[metric])}` : null;
      },
      style: (head) => this.style([head]),
      read: () => this.tellBroken(),
    });
    this.fill();
    this.listen();
    this.show();
  }

  axesOf(item) {
    if (!this.axes.has(item)) {
      const [row, column] = this.data.axes;
      this.axes.set(item, { rows: new Axis(item.rows, row), columns: new Axis(item.columns, column) });
    }
    return this.axes.get(item);
  }

  /** What the document says once, and the choices that it offers. */
  fill() {
    const { data, places } = this;
    $("title").textContent = visible(data.title);
    const [dumps, heads] = [data.dumps.length, places.of(this.state.item).length];
    const captions = [...new Set(data.dumps.map(({ caption }) => caption).filter(Boolean))];
    const sizes = captions.length === 1 && heads > 1 && dumps === 1 ? [] : [counted(heads, "head")];
    if (dumps > 1) sizes.unshift(counted(dumps, "dump"));
    if (captions.length === 1) sizes.push(visible(captions[0]));
    this.captions = captions.length;
    $("subtitle").textContent = [visible(data.what), ...sizes].join(" · ");
    fillSelect($("item"), places.items.map((index) => [String(index), String(index)]), String(this.state.item));
    $("item-box").hidden = places.items.length < 2;
    const metrics = data.metrics.map(({ name }) => [name, visible(name)]);
    fillSelect($("sort"), [["", data.dumps.length > 1 ? "dump and head" : "head"], ...metrics], this.state.metric);
    $("least-name").textContent = data.weights ? "Minimum weight" : "Minimum size";
    const notes = data.dumps.filter((dump) => dump.notes?.length);
    $("dump-notes").replaceChildren(...notes.map((dump) => {
      const list = make("ul");
      list.className = "quiet";
      const items = noteItems(dump.notes);
      if (data.dumps.length > 1) for (const item of items) item.prepend(`${shortened(dump.name, 40)}: `);
      list.append(...items);
      return list;
    }));
  }

  /** The heads in sight: two that are compared, one, or all of the item. */
  get heads() {
    const { place, other, view, item } = this.state;
    if (!place) return this.places.headsOf(item);
    return view === "compare" && other ? [place.head, other.head] : [place.head];
  }

  /** The range of the colours: of some heads alone, or of all. */
  rangeFor(heads) {
    const all = this.state.scale === "own" ? [] : this.places.headsOf(this.state.item);
    const range = this.places.range([...all, ...heads]);
    if (!(range.high > -Infinity)) return { low: 0, high: 1, floor: 0, largest: 1 };
    const floor = Number.isFinite(range.floor) && range.floor < range.high ? range.floor : 0;
    return { ...range, high: range.high > range.low ? range.high : range.low + 1, floor };
  }

  scaleFor(heads) {
    const { low, high, floor } = this.rangeFor(heads);
    return new Scale({ low, high, signed: this.data.signed, floor: this.state.colours === "log" ? floor : 0 });
  }

  style(heads = this.heads) {
    return styleOf(this.palette, this.scaleFor(heads), this.state.least, Math.min(2, devicePixelRatio || 1), this.marks);
  }

  /** Takes over light or dark colours: paper is light. */
  turn() {
    document.documentElement.dataset.theme = this.dark && !this.printing ? "dark" : "light";
    $("theme").textContent = this.dark ? "Light" : "Dark";
    this.marks = marksOf(document.documentElement);
  }

  /** Takes over changes of the state, shows them and puts them into the address; `quietly` is no step to go back. */
  change(parts, quietly = false) {
    const before = this.state;
    this.state = { ...before, ...parts };
    this.address(quietly);
    if ("query" in parts && Object.keys(parts).length === 1) return;
    this.show(before);
  }

  address(quietly) {
    clearTimeout(this.addressing);
    const hash = hashOf(this.state, this.places);
    if (hash === (location.hash || "#")) return;
    // Browsers refuse addresses that change many times a second, as under a slider.
    if (quietly) this.addressing = setTimeout(() => location.replace(hash), 200);
    else location.hash = hash;
  }

  show(before = null) {
    const { state } = this;
    const inHead = state.place !== null;
    $("message").hidden = true;
    if (inHead && !this.head.can[state.view]) state.view = "matrix";
    if (inHead && state.view === "compare") state.other ??= this.places.beside(state.place);
    $("head-view").hidden = !inHead;
    $("grid-view").hidden = inHead;
    for (const box of document.querySelectorAll(".in-grid")) box.classList.toggle("away", inHead);
    this.controls();
    this.legend();
    const same = (name) => before && before[name] === state[name];
    const kept = ["item", "metric", "order"].every(same);
    if (inHead) this.head.show(before !== null && !before.place);
    else if (!kept || !this.listed) this.list();
    else if (!["least", "scale", "colours"].every(same)) this.grid.refresh();
    if (!inHead && before?.place) {
      this.grid.refresh();
      this.grid.focus(before.place.key);
    }
    if (inHead !== Boolean(before?.place)) scrollTo(0, 0);
    if (inHead && !kept) this.listed = false;
  }

  /** The grid anew. */
  list() {
    const { item, metric, order } = this.state;
    const places = this.places.of(item);
    const dumps = this.data.dumps.map((dump, d) => (
      { dump, name: dump.name, heads: places.filter((place) => place.d === d) }));
    const flat = metric !== "" && order !== 0;
    this.grid.show(dumps, flat, flat ? this.places.sorted(item, metric, order) : places);
    const chosen = this.data.metrics.find(({ name }) => name === metric);
    const note = chosen ? `${visible(chosen.name)}: ${visible(chosen.meaning)}` : "Choose a head to open it.";
    $("grid-note").textContent = places.length ? note : "There are no heads in this document.";
    this.listed = true;
  }

  controls() {
    const { state } = this;
    for (const name of ["item", "scale", "colours"]) $(name).value = String(state[name]);
    $("sort").value = state.metric;
    $("order").value = String(state.order);
    const lone = this.places.of(state.item).length < 2;
    const tokens = state.place !== null && state.view === "tokens"; // which has no colours for numbers
    $("sort-box").hidden = lone || !this.data.metrics.length;
    $("order-box").hidden = lone || !state.metric;
    $("scale-box").hidden = lone || tokens;
    $("colours-box").hidden = !this.data.weights || tokens;
    $("legend").hidden = tokens;
    $("steps").hidden = lone;
    if (Number($("least").value) !== state.least) $("least").value = String(Number(number(state.least, 3)));
    const most = this.most;
    $("least-range").value = String(Math.round(1000 * Math.cbrt(Math.min(1, state.least / most))));
    $("least-range").setAttribute("aria-valuetext", number(state.least, 2));
  }

  /** The largest number there is, by size. */
  get most() {
    const { low, largest } = this.places.range(this.places.headsOf(this.state.item));
    const most = this.data.weights ? largest : Math.max(Math.abs(low), Math.abs(largest));
    return most > 0 && Number.isFinite(most) ? most : 1;
  }

  /** A colour bar with its numbers; `beyond`: there are larger ones, of the same colour as the last. */
  bar(box, scale, name, beyond = false) {
    const title = make("span", null, name);
    const wrap = make("span");
    wrap.className = "bar-box";
    const canvas = make("canvas", wrap);
    canvas.className = "bar-colours";
    [canvas.width, canvas.height] = [256, 1];
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(256, 1);
    new Uint32Array(image.data.buffer).set(this.palette[scale.signed ? "signed" : "sequential"]);
    pen.putImageData(image, 0, 0);
    const marks = make("span", wrap);
    marks.className = "bar-marks";
    for (const place of [0, 0.5, 1]) make("span", marks, round(scale.at(place)));
    if (beyond) marks.lastChild.append(" or more");
    box.replaceChildren(title, wrap);
  }

  legend() {
    const { state, data } = this;
    const { heads } = this;
    const own = state.scale === "own";
    const box = $("legend");
    $(state.place ? "status" : "controls").append(box);
    if (own && !state.place) {
      this.bar(box, new Scale({ low: 0, high: 1, signed: data.signed }), this.word);
      box.querySelector(".bar-marks").textContent = "each head on its own scale";
    } else {
      const { high, largest } = this.rangeFor(heads);
      const name = own && heads.length > 1 ? `${this.word}, A and B` : this.word;
      this.bar(box, this.scaleFor(heads), name, largest > high);
    }
    const floor = state.place ? Math.max(...heads.map((head) => floorOf(head, data.weights))) : 0;
    if (floor > 0) this.chip(box, null, `held from ${number(floor, 2)} on`);
    if (heads.some(({ mask }) => Number.isInteger(mask))) this.chip(box, HIDDEN, "hidden by a mask");
    if (heads.some((head) => this.store.broken.has(head))) this.chip(box, BROKEN, "not a number");
    if (state.least > 0) this.chip(box, this.marks.blank, `below ${number(state.least, 2)}`);
  }

  /** The legend again once a head turns out to hold what is no number. */
  tellBroken() {
    if (this.broken === this.store.broken.size) return;
    this.broken = this.store.broken.size;
    this.legend();
  }

  /** A sample of a pattern, if there is one, and its meaning. */
  chip(box, colour, text) {
    const item = make("span", box, text);
    item.className = "chip";
    if (colour === null) return;
    const canvas = make("canvas");
    [canvas.width, canvas.height] = [36, 28];
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(36, 28);
    const pixels = new Uint32Array(image.data.buffer);
    const line = new Uint32Array(36).fill(colour);
    const style = { hatch: 12, marks: this.marks };
    for (let y = 0; y < 28; y++) patternLine(pixels.subarray(y * 36, y * 36 + 36), line, y, style);
    pen.putImageData(image, 0, 0);
    item.prepend(canvas);
  }

  step(way) {
    const { place, item, metric, order, view, other } = this.state;
    const passed = (one) => view === "compare" && one === other && one !== place;
    const all = this.places.sorted(item, metric, order).filter((one) => !passed(one));
    if (place) this.change({ place: all[(all.indexOf(place) + way + all.length) % all.length] });
  }

  listen() {
    const on = (id, kind, act) => $(id).addEventListener(kind, act);
    on("back", "click", () => this.change({ place: null }));
    on("previous", "click", () => this.step(-1));
    on("next", "click", () => this.step(1));
    for (const button of document.querySelectorAll("[data-view]")) {
      button.addEventListener("click", () => this.change({ view: button.dataset.view }));
    }
    on("sort", "change", () => this.change({ metric: $("sort").value }, true));
    on("order", "change", () => this.change({ order: Number($("order").value) }, true));
    on("scale", "change", () => this.change({ scale: $("scale").value }, true));
    on("colours", "change", () => this.change({ colours: $("colours").value }, true));
    on("item", "change", () => this.chooseItem(Number($("item").value)));
    on("least", "input", () => this.change({ least: Math.max(0, Number($("least").value) || 0) }, true));
    on("least-range", "input", () => {
      const share = Number($("least-range").value) / 1000;
      this.change({ least: Number(number(this.most * share ** 3, 3)) }, true);
    });
    on("other", "change", () => this.change({ other: this.places.find($("other").value) }));
    on("other-item", "change", () => this.chooseOtherItem(Number($("other-item").value)));
    on("theme", "click", () => {
      this.state.theme = this.dark ? "light" : "dark";
      this.address(true);
      this.recolour();
    });
    on("help-open", "click", () => $("help").showModal());
    on("help-close", "click", () => $("help").close());
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => this.follow());
    addEventListener("resize", () => this.resized());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    for (const kind of ["beforeprint", "afterprint"]) {
      addEventListener(kind, () => {
        this.printing = kind === "beforeprint";
        this.recolour();
      });
    }
  }

  chooseItem(item) {
    const { places, state: { place, other, item: before } } = this;
    const together = other?.item.index === before; // what shows the same item goes on doing so
    this.change({ item, place: places.same(place, item), other: together ? places.same(other, item) : other });
  }

  chooseOtherItem(item) {
    this.change({ other: this.places.same(this.state.other, item) ?? this.places.of(item)[0] ?? null });
  }

  /** Another address: a link, or a step back. */
  follow() {
    const hash = location.hash || "#";
    if (hash === hashOf(this.state, this.places)) return;
    const before = this.state;
    this.state = stateFrom(location.hash, this.places);
    this.show(before);
    if (before.theme !== this.state.theme) this.recolour();
  }

  get dark() {
    const { theme } = this.state;
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  recolour() {
    this.turn();
    this.legend();
    if (this.state.place) this.head.redraw(false);
    this.grid.refresh();
  }

  resized() {
    cancelAnimationFrame(this.resizing);
    this.resizing = requestAnimationFrame(() => {
      if (this.state.place) this.head.redraw(true);
      else this.grid.refresh();
    });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || $("help").open) return;
    if (event.key === "Escape" && this.state.place) return void this.change({ place: null });
    if (event.target.matches("input, select, textarea")) return;
    const inHead = this.state.place !== null;
    if (event.key === "?") $("help").showModal();
    else if (inHead && event.key === "n") this.step(1);
    else if (inHead && event.key === "p") this.step(-1);
    else if (inHead && { m: 1, t: 1, c: 1 }[event.key]) {
      this.change({ view: VIEWS.find((view) => view.startsWith(event.key)) });
    } else if (inHead && "+=-0".includes(event.key)) this.head.plots[0]?.key(event);
    else return;
    event.preventDefault();
  }
}

function fail(text) {
  $("message").textContent = text;
  $("message").hidden = false;
}

function start() {
  try {
    if (typeof DecompressionStream === "undefined") {
      return fail("This browser is too old for this page: it needs Chrome or Edge 103, Firefox 113 or Safari 16.4.");
    }
    const data = JSON.parse($("data").textContent);
    if (data.format !== 1) return fail(`This page holds a document of format ${data.format}, unknown to its script.`);
    $("page").hidden = false;
    $("message").hidden = true;
    const app = new App(data);
    // For tests and for the console: where things are drawn and the numbers behind them. It changes nothing.
    window.mhacli = Object.freeze({
      cellBox: (row, column, plot = 0) => app.head.plots[plot].boxOf(row, column),
      describe: (row, column) => app.head.describe(app.head.plots[0].source.head, row, column),
    });
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    $("page").hidden = true;
    fail("The numbers of this page cannot be read: the file is incomplete or damaged. Copy it or write it again.");
    $("message").title = error.message;
  }
  return undefined;
}

start();
