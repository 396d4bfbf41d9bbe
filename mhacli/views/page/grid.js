// All heads at a glance: a grid of thumbnails, drawn when they come into sight.

class Grid {
  /** `parts`: store, open(place), caption(place), style(head), read(): called when a head has been read. */
  constructor(box, parts) {
    Object.assign(this, parts);
    this.box = box;
    this.waiting = [];
    this.drawn = new Set();
    this.watch = new IntersectionObserver((entries) => this.arrive(entries), { rootMargin: "300px" });
    box.addEventListener("keydown", (event) => this.key(event));
    box.parentElement.addEventListener("scroll", () => this.hint());
    new ResizeObserver(() => this.hint()).observe(box.parentElement);
  }

  /** Lays out thumbnails: dump by dump with one dump a row, or all in one sequence where `flat`. */
  show(dumps, flat, places) {
    this.watch.disconnect();
    this.waiting = [];
    this.drawn.clear();
    this.box.replaceChildren();
    const across = Math.max(1, ...dumps.map(({ heads }) => heads.length));
    const flow = flat || dumps.length === 1 || across === 1; // nothing that would stand side by side in rows
    this.box.classList.toggle("flow", flow);
    this.box.style.setProperty("--across", across);
    // Few pictures may be large.
    const beside = flow ? places.length : 2 * across;
    const size = [[1, 360], [4, 260], [8, 210], [12, 180], [24, 140]].find(([most]) => beside <= most)?.[1] ?? 104;
    this.box.style.setProperty("--size", `${size}px`);
    if (flow) for (const place of places) this.add(place, true);
    else {
      const labels = dumps.map(({ dump, name, heads }, row) => {
        const label = make("h3", this.box, shortened(name, 40));
        label.title = visible(dump.caption ?? "");
        // It takes part in the whole row, so that it can stay in sight all along it.
        label.style.gridArea = `${row + 1} / 1 / auto / -1`;
        heads.forEach((place, at) => (this.add(place, false).style.gridArea = `${row + 1} / ${at + 2}`));
        return label.offsetWidth;
      });
      this.box.parentElement.style.setProperty("--label", `${Math.max(...labels)}px`);
    }
    this.hint();
    const first = this.box.querySelector("button");
    if (first) first.tabIndex = 0;
  }

  add(place, long) {
    const button = make("button", this.box);
    button.type = "button";
    button.className = "thumb";
    button.tabIndex = -1;
    button.place = place;
    button.dataset.place = place.key;
    const canvas = make("canvas", button);
    const { rows, columns } = place.item;
    canvas.style.aspectRatio = Math.min(3, Math.max(1 / 3, columns.count / Math.max(1, rows.count)));
    const name = make("span", button, long ? place.title : shortened(place.head.name, 40));
    name.className = "name";
    const value = this.caption(place);
    if (value !== null) make("span", button, value).className = "metric";
    button.setAttribute("aria-label", value === null ? place.title : `${place.title}, ${value}`);
    button.addEventListener("click", () => this.open(place));
    button.addEventListener("focus", () => {
      for (const other of this.box.querySelectorAll('button[tabindex="0"]')) other.tabIndex = -1;
      button.tabIndex = 0;
    });
    this.watch.observe(button);
    return button;
  }

  /** Shows that there is more to the right. */
  hint() {
    const { scrollWidth, clientWidth, scrollLeft } = this.box.parentElement;
    this.box.parentElement.classList.toggle("more", scrollWidth - clientWidth - scrollLeft > 8);
  }

  arrive(entries) {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      this.watch.unobserve(target);
      this.waiting.push(target);
    }
    this.drain();
  }

  /** Draws what waits, a few a frame, so that the page stays at hand. */
  async drain() {
    if (this.busy) return;
    this.busy = true;
    let since = performance.now();
    while (this.waiting.length) {
      await this.draw(this.waiting.shift());
      if (performance.now() - since < 12) continue;
      await new Promise((next) => setTimeout(next));
      since = performance.now();
    }
    this.busy = false;
  }

  async draw(button) {
    const canvas = button.firstElementChild;
    const { item, head } = button.place;
    if (!canvas.clientWidth) return void this.watch.observe(button); // out of sight for now
    try {
      const opened = await this.store.glance(item, head);
      this.read();
      const ratio = Math.min(2, window.devicePixelRatio || 1);
      canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
      canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
      const pen = canvas.getContext("2d", ON_CPU);
      const image = pen.createImageData(canvas.width, canvas.height);
      const source = new HeadSource(opened, this.store.data.signed);
      const view = { top: 0, left: 0, bottom: source.rows, right: source.columns };
      paint(image, view, source, this.style(head));
      pen.putImageData(image, 0, 0);
      button.dataset.drawn = "true";
    } catch (error) {
      button.classList.add("failed");
      button.querySelector(".name").textContent = `${shortened(head.name, 30)}: cannot be read`;
      button.title = error.message;
    }
    this.drawn.add(button);
  }

  /** Draws again what is in sight, under other colours or another least number. */
  refresh() {
    for (const button of this.drawn) this.watch.observe(button);
    this.drawn.clear();
  }

  focus(key) {
    const buttons = [...this.box.querySelectorAll("button")];
    (buttons.find((button) => button.dataset.place === key) ?? buttons[0])?.focus();
  }

  key(event) {
    const buttons = [...this.box.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = {
      ArrowLeft: () => buttons[at - 1], ArrowRight: () => buttons[at + 1],
      Home: () => buttons[0], End: () => buttons.at(-1),
      ArrowUp: () => this.beside(buttons, buttons[at], -1), ArrowDown: () => this.beside(buttons, buttons[at], 1),
    }[event.key];
    if (!next) return;
    next()?.focus();
    event.preventDefault();
  }

  /** The button nearest below or above one. */
  beside(buttons, button, way) {
    const centre = (box) => [box.left + box.width / 2, box.top + box.height / 2];
    const [x, y] = centre(button.getBoundingClientRect());
    let best = null;
    let least = Infinity;
    for (const other of buttons) {
      const [otherX, otherY] = centre(other.getBoundingClientRect());
      const down = (otherY - y) * way;
      const far = down * 1000 + Math.abs(otherX - x);
      if (down > 8 && far < least) [least, best] = [far, other];
    }
    return best;
  }
}
