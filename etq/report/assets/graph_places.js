// The positions of a graph's ops and modules: layers from top to bottom within each open module. The page's data has
// the rank and order of each op and module within its module; positions follow from these and from which modules are
// open.

const ACROSS = 14;
const DOWN = 24;
const INNER = 12;
const TITLE = 22;
const BEND = 8;

// Ops, modules and bends have one numbering: ops first, then modules (groups), then bends.
etq.GraphPlaces = class {
  constructor({ nodes, groups, edges, bends }, graphId) {
    this.nodes = nodes;
    this.groups = groups;
    this.count = nodes.length;
    this.all = nodes.length + groups.length;
    const total = this.all + bends.length;
    this.parent = new Int32Array(total).fill(-1);
    this.rank = new Int32Array(total);
    this.order = new Int32Array(total);
    this.depth = new Int32Array(this.all);
    for (const [table, first] of [[nodes, 0], [groups, this.count]]) {
      for (const [name, into] of [["parent", this.parent], ["rank", this.rank], ["order", this.order]]) {
        table.list(name).forEach((value, at) => (into[first + at] = value));
      }
    }
    const graphs = groups.list("graph_id");
    this.root = graphs.findIndex((id, at) => id === graphId && this.parent[this.count + at] < 0);
    for (let item = this.count; item < this.all; item += 1) {
      if (this.parent[item] >= 0) this.depth[item] = this.depth[this.count + this.parent[item]] + 1;
    }
    for (let item = 0; item < this.count; item += 1) this.depth[item] = this.depth[this.count + this.parent[item]] + 1;
    // Bends of one owner in a group are consecutive, one per rank.
    const owners = bends.list("owner");
    this.bends = groups.rows().map(() => new Map());
    for (let at = 0; at < bends.length; at += 1) {
      const item = this.all + at;
      this.parent[item] = bends.get(at, "group");
      this.rank[item] = bends.get(at, "rank");
      this.order[item] = bends.get(at, "order");
      const known = this.bends[this.parent[item]];
      if (!known.has(owners[at])) known.set(owners[at], { first: item, number: 0 });
      known.get(owners[at]).number += 1;
    }
    this.rows = groups.rows().map(() => []);
    for (let item = 0; item < total; item += 1) {
      if (this.parent[item] < 0) continue;
      const rows = this.rows[this.parent[item]];
      (rows[this.rank[item]] ??= [])[this.order[item]] = item;
    }
    for (const rows of this.rows) rows.forEach((row, at) => (rows[at] = row.filter((item) => item !== undefined)));
    this.edges = [];
    this.upper = new Map();
    this.lower = new Map();
    const makers = edges.list("maker");
    const users = edges.list("user");
    const joined = new Set();
    const pass = (way) => {
      for (let step = 1; step < way.length; step += 1) {
        const key = way[step - 1] * total + way[step];
        if (joined.has(key)) continue;
        joined.add(key);
        this.join(way[step - 1], way[step]);
      }
    };
    makers.forEach((maker, at) => {
      const user = users[at];
      const [one, other] = this.siblings(maker, user);
      this.edges.push({ maker, user, one, other });
      for (let item = maker; item !== one; item = this.count + this.parent[item]) pass([item, ...this.wayOut(item)]);
      pass([one, ...this.way(one, other), other]);
      for (let item = user; item !== other; item = this.count + this.parent[item]) pass([...this.wayIn(maker, item), item]);
    });
    this.x = new Float64Array(total);
    this.y = new Float64Array(total);
    this.width = new Float64Array(total);
    this.height = new Float64Array(total);
    this.open = new Uint8Array(groups.length);
  }

  join(one, other) {
    for (const [map, from, to] of [[this.lower, one, other], [this.upper, other, one]]) {
      if (!map.has(from)) map.set(from, new Set());
      map.get(from).add(to);
    }
  }

  // Two items with a common parent, one for each end of an edge. Each item is the end itself, or contains it.
  siblings(one, other) {
    let [above, below] = [one, other];
    while (this.parent[above] !== this.parent[below]) {
      if (this.depth[above] >= this.depth[below]) above = this.count + this.parent[above];
      else below = this.count + this.parent[below];
    }
    return [above, below];
  }

  // The bends of an edge: between two children of one parent; from a child to the end of its module; or from outside a
  // module to a child.
  way(one, other) {
    return this.passed(this.parent[one], one, this.rank[other] - this.rank[one] - 1);
  }

  wayOut(item) {
    return this.passed(this.parent[item], item, this.rows[this.parent[item]].length - this.rank[item] - 1);
  }

  wayIn(maker, item) {
    return this.passed(this.parent[item], maker, this.rank[item]);
  }

  passed(group, owner, number) {
    const known = this.bends[group].get(owner);
    return known ? Array.from({ length: Math.min(Math.max(0, number), known.number) }, (_, at) => known.first + at) : [];
  }

  isOpen(item) {
    return item >= this.count && item < this.all && this.open[item - this.count] === 1;
  }

  // The box that shows an op: its own, or that of the outermost closed module that contains it.
  shown(item) {
    let found = item;
    for (let at = this.parent[item]; at >= 0; at = this.parent[this.count + at]) if (!this.open[at]) found = this.count + at;
    return found;
  }

  // Opens all modules that contain an op or a module.
  expose(item) {
    for (let at = this.parent[item]; at >= 0; at = this.parent[this.count + at]) this.open[at] = 1;
  }

  // Opens modules down to a level: 1 opens the graph itself.
  openTo(level) {
    for (let at = 0; at < this.groups.length; at += 1) this.open[at] = this.depth[this.count + at] < level ? 1 : 0;
  }

  get levels() {
    return Math.max(...this.groups.rows().map((at) => this.depth[this.count + at] + 1));
  }

  // Positions of the open modules, from the sizes of the closed ones.
  lay(sizeOf) {
    this.sizeOf = sizeOf;
    this.visible = [];
    this.frames = [];
    this.layGroup(this.count + this.root);
    this.put(this.count + this.root, 0, 0);
    this.lines = this.joined();
  }

  layGroup(item) {
    const rows = this.rows[item - this.count];
    for (const row of rows) {
      for (const each of row) {
        if (this.isOpen(each)) this.layGroup(each);
        else if (each < this.all) [this.width[each], this.height[each]] = this.sizeOf(each);
        else [this.width[each], this.height[each]] = [BEND, 0];
      }
    }
    for (const row of rows) this.spread(row, null);
    for (let at = 1; at < rows.length; at += 1) this.spread(rows[at], this.upper);
    for (let at = rows.length - 2; at >= 0; at -= 1) this.spread(rows[at], this.lower);
    for (let at = 1; at < rows.length; at += 1) this.spread(rows[at], this.upper);
    let [left, right, y] = [Infinity, -Infinity, TITLE + INNER];
    for (const row of rows) {
      let high = 0;
      for (const each of row) high = Math.max(high, this.height[each]);
      for (const each of row) {
        left = Math.min(left, this.x[each] - this.width[each] / 2);
        right = Math.max(right, this.x[each] + this.width[each] / 2);
        this.y[each] = y + (high - this.height[each]) / 2;
        if (each >= this.all) [this.y[each], this.height[each]] = [y, high];
      }
      y += high + DOWN;
    }
    const least = this.sizeOf(item)[0];
    const wide = Math.max(right - left, least);
    const shift = INNER - left + (wide - (right - left)) / 2;
    for (const row of rows) for (const each of row) this.x[each] += shift - this.width[each] / 2;
    this.width[item] = wide + 2 * INNER;
    this.height[item] = y - DOWN + INNER;
  }

  // Places a row as close to its neighbours in one direction as its order allows, by least squares.
  spread(row, neighbours) {
    const blocks = [];
    let offset = 0;
    row.forEach((item, at) => {
      if (at) offset += (this.width[row[at - 1]] + this.width[item]) / 2 + ACROSS;
      const others = neighbours?.get(item);
      let wish = neighbours ? this.x[item] : 0;
      if (others?.size) {
        wish = 0;
        for (const other of others) wish += this.x[other] / others.size;
      }
      const weight = neighbours && !others?.size ? 0.01 : 1;
      let block = { sum: (wish - offset) * weight, weight, from: at };
      while (blocks.length && blocks.at(-1).sum / blocks.at(-1).weight > block.sum / block.weight) {
        const last = blocks.pop();
        block = { sum: last.sum + block.sum, weight: last.weight + block.weight, from: last.from };
      }
      block.to = at + 1;
      blocks.push(block);
    });
    offset = 0;
    let at = 0;
    for (const block of blocks) {
      const start = block.sum / block.weight;
      for (; at < block.to; at += 1) {
        if (at) offset += (this.width[row[at - 1]] + this.width[row[at]]) / 2 + ACROSS;
        this.x[row[at]] = start + offset;
      }
    }
  }

  put(item, x, y) {
    this.x[item] = x;
    this.y[item] = y;
    if (!this.isOpen(item)) {
      if (item < this.all) this.visible.push(item);
      return;
    }
    this.frames.push(item);
    for (const row of this.rows[item - this.count]) for (const each of row) this.put(each, x + this.x[each], y + this.y[each]);
  }

  // Edges between visible items, each once, with the points that they pass: x, top y, bottom y.
  joined() {
    const lines = [];
    const known = new Set();
    for (const { maker, user, one, other } of this.edges) {
      if (!this.isWithin(maker)) continue;
      const from = this.shown(maker);
      const to = this.shown(user);
      const key = from * this.all + to;
      if (from === to || known.has(key)) continue;
      known.add(key);
      const middle = (item) => this.x[item] + this.width[item] / 2;
      const points = [[middle(from), this.y[from] + this.height[from], this.y[from] + this.height[from]]];
      const bends = [];
      for (let item = from; item !== one; item = this.count + this.parent[item]) bends.push(...this.wayOut(item));
      bends.push(...this.way(one, other));
      const inner = [];
      for (let item = to; item !== other; item = this.count + this.parent[item]) inner.push(this.wayIn(maker, item));
      for (const bend of [...bends, ...inner.reverse().flat()]) points.push([middle(bend), this.y[bend], this.y[bend] + this.height[bend]]);
      points.push([middle(to), this.y[to], this.y[to]]);
      const [xs, ys] = [points.map((point) => point[0]), points.flatMap((point) => [point[1], point[2]])];
      lines.push({ from, to, points, box: [Math.min(...xs) - 40, Math.min(...ys), Math.max(...xs) + 40, Math.max(...ys)] });
    }
    return lines;
  }

  // Whether an op belongs to the graph that is shown.
  isWithin(item) {
    return this.groups.get(this.parent[item], "graph_id") === this.groups.get(this.root, "graph_id");
  }
};
