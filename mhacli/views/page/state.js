// What the page shows now, its heads by their places, and both as the address of the page tells them.

const VIEWS = ["matrix", "tokens", "compare"];

/** All heads of the document: each a place with its dump, item, head, a title and a key. */
class Places {
  constructor(data) {
    this.data = data;
    this.all = [];
    data.dumps.forEach((dump, d) => {
      for (const item of dump.items) {
        for (const head of item.heads) {
          const name = shortened(head.name, 40);
          const title = data.dumps.length > 1 ? `${shortened(dump.name, 40)} · ${name}` : name;
          this.all.push({ d, dump, item, head, title, key: `${d}.${head.index}.${item.index}` });
        }
      }
    });
    this.items = [...new Set(this.all.map(({ item }) => item.index))].sort((a, b) => a - b);
  }

  of(item) {
    return this.all.filter((place) => place.item.index === item);
  }

  /** The head of the same number and dump in another item, or null. */
  same(place, item) {
    return this.of(item).find(({ d, head }) => d === place?.d && head.index === place.head.index) ?? null;
  }

  /** The head that another one is compared with at first: the next one. */
  beside(place) {
    const all = this.of(place.item.index);
    const next = all[(all.indexOf(place) + 1) % all.length];
    return next !== place ? next : this.all.find((one) => one !== place) ?? null;
  }

  /** The colours to begin with: heads that look at very much have no weight that linear ones would tell from 0. */
  get colours() {
    const known = this.all.map(({ head }) => head.metrics.max_weight).filter(Number.isFinite);
    if (!this.data.weights || !known.length) return "linear";
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    return mean < 0.1 * this.range(this.all.map(({ head }) => head)).high ? "log" : "linear";
  }

  headsOf(item) {
    return this.of(item).map(({ head }) => head);
  }

  find(key) {
    return this.all.find((place) => place.key === key) ?? null;
  }

  /** The heads of an item in the order asked for; those without the metric come last. */
  sorted(item, metric, order) {
    const places = this.of(item);
    const value = ({ head }) => head.metrics[metric] ?? null;
    if (!metric || !order) return places;
    return places.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return x === null || y === null ? (x === null) - (y === null) : (x - y) * order;
    });
  }

  /** The least and the largest number of some heads, and the least floor; `largest` may be beyond the scale's high. */
  range(heads) {
    return heads.map((head) => rangeOf(head, this.data.weights)).reduce((all, one) => ({
      low: Math.min(all.low, one.low), high: Math.max(all.high, one.high), floor: Math.min(all.floor, one.floor),
      largest: Math.max(all.largest, one.largest),
    }), { low: Infinity, high: -Infinity, floor: Infinity, largest: -Infinity });
  }
}

function rangeOf(head, weights) {
  const known = Number.isFinite(head.low) && Number.isFinite(head.high);
  const [low, high] = known ? [head.low, head.high] : [Infinity, -Infinity];
  const largest = Math.max(high, head.largest ?? high);
  if (!weights) return { low, high, floor: Infinity, largest };
  // Colours by the logarithm begin at the least weight, but what is far below the largest needs none of its own.
  return { low: 0, high, floor: Math.max(head.levels.at(-1)?.low ?? 0, known ? low : 0, high * 1e-5), largest };
}

/** The state in full: what the document wants at first, then what the address says, junk left aside. */
function stateFrom(hash, places) {
  const { data } = places;
  const names = new Set(data.metrics.map(({ name }) => name));
  const asked = new URLSearchParams(hash.replace(/^#/, ""));
  const one = (name, allowed, otherwise) => (allowed.includes(asked.get(name)) ? asked.get(name) : otherwise);
  const sort = asked.get("sort") ?? data.sort ?? "";
  const metric = sort.replace(/^[-=]/, "");
  const least = Number(asked.get("min"));
  const item = Number(asked.get("item") ?? NaN);
  const state = {
    item: places.items.includes(item) ? item : places.items[0] ?? 0,
    metric: names.has(metric) ? metric : "",
    order: { "-": 1, "=": 0 }[sort[0]] ?? -1,
    least: Number.isFinite(least) && least > 0 ? least : 0,
    scale: one("scale", ["shared", "own"], "shared"),
    colours: one("colours", ["linear", "log"], places.colours),
    theme: one("theme", ["light", "dark"], ""),
    view: one("view", VIEWS, "matrix"),
    other: places.find(asked.get("with")),
    query: /^\d+$/.test(asked.get("query") ?? "") ? Number(asked.get("query")) : null,
    place: null,
  };
  if (asked.has("head") || asked.has("dump")) {
    const key = `${asked.get("dump") ?? 0}.${asked.get("head") ?? 0}.${state.item}`;
    state.place = places.find(key);
  }
  return state;
}

/** The address of a state: only what differs from how the page begins. */
function hashOf(state, places) {
  const parts = new URLSearchParams();
  if (state.place) {
    parts.set("dump", state.place.d);
    parts.set("head", state.place.head.index);
    parts.set("view", state.view);
    if (state.view === "compare" && state.other) parts.set("with", state.other.key);
    if (state.view === "tokens" && state.query !== null) parts.set("query", state.query);
  }
  if (state.item !== places.items[0]) parts.set("item", state.item);
  const sort = state.metric ? `${{ "-1": "", 0: "=", 1: "-" }[state.order]}${state.metric}` : "";
  if (sort !== (places.data.sort ?? "")) parts.set("sort", sort);
  if (state.least > 0) parts.set("min", number(state.least, 6));
  if (state.scale !== "shared") parts.set("scale", state.scale);
  if (state.colours !== places.colours) parts.set("colours", state.colours);
  if (state.theme) parts.set("theme", state.theme);
  return `#${parts}`;
}
