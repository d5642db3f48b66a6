// The picture of a graph on a canvas, to drag, zoom and click; only the visible part is drawn.

const BOX = 38;
const LEAST = 76;
const WIDEST = 210;
const TITLE = 22;
const CANVAS = 560;
const [NARROW, LOW] = [600, 420];

// An item is an op or a module, by its number in `GraphPlaces`.
etq.GraphView = class extends etq.Canvas {
  // options: title, label(item) → [first line, second line], colour(item), describe(item), choose(item) by a click or Enter, select(item),
  // heading(item), over(item or -1)
  constructor(parent, options) {
    super(parent, options, "application");
    this.scale = 1;
    this.left = 0;
    this.high = null;
    this.screen = null;
    this.chosen = -1;
    this.pointed = new Set();
    etq.onRedraw(() => {
      this.toPaper();
      this.drawNow();
    });
  }

  // A print shows the same part as the screen. If the whole graph is in view, the space around it is left out.
  toPaper() {
    if (!etq.paper && this.screen) {
      Object.assign(this, this.screen);
      this.screen = null;
    }
    const wide = this.box.clientWidth;
    if (!etq.paper || this.screen || !wide || !this.places) return;
    const { scale, left, top, high } = this;
    const root = this.places.count + this.places.root;
    const [width, height] = [this.places.width[root], this.places.height[root]];
    const shown = wide < NARROW ? LOW : CANVAS;
    this.screen = { scale, left, top, high };
    if (left <= 0 && top <= 0 && left + wide / scale >= width && top + shown / scale >= height) {
      this.scale = Math.min((etq.paper - 16) / width, (CANVAS - 16) / height, 1.2);
      this.high = Math.ceil(height * this.scale + 16);
      [this.left, this.top] = [width / 2 - etq.paper / 2 / this.scale, -8 / this.scale];
    } else {
      this.scale *= etq.paper / wide;
      this.high = Math.round((shown * etq.paper) / wide);
    }
  }

  get height() {
    return this.high ?? (this.width < NARROW ? LOW : CANVAS);
  }

  show(places) {
    this.places = places;
    this.hits = null;
    this.lay();
    this.fit(0.6);
  }

  lay() {
    this.pen.font = "12px system-ui, sans-serif";
    this.places.lay((item) => {
      const [first, second] = this.options.label(item);
      const wide = Math.max(this.measured(item < this.places.count ? first : `+ ${first} `) * (item < this.places.count ? 1 : 1.1), this.measured(second));
      return [Math.min(Math.max(wide + 18, LEAST), WIDEST), BOX];
    });
  }

  measured(text) {
    this.sizes ??= new Map();
    if (!this.sizes.has(text)) this.sizes.set(text, this.pen.measureText(etq.printable(etq.short(text, 60))).width);
    return this.sizes.get(text);
  }

  // Shows the whole graph; if its scale would be below the smallest one, only its top.
  fit(least = 0) {
    const root = this.places.count + this.places.root;
    const [width, height] = [this.places.width[root], this.places.height[root]];
    this.scale = Math.max(Math.min((this.width - 16) / width, (this.height - 16) / height, 1.2), least, 0.004);
    this.left = width / 2 - this.width / 2 / this.scale;
    this.top = height * this.scale > this.height ? -8 / this.scale : height / 2 - this.height / 2 / this.scale;
    this.draw();
  }

  // Opens or closes modules. The box that shows the given item keeps its place on the screen.
  change(act, item) {
    const places = this.places;
    const before = [places.x[item] - this.left, places.y[item] - this.top];
    act();
    this.lay();
    const anchor = places.shown(item);
    this.left = places.x[anchor] - before[0];
    this.top = places.y[anchor] - before[1];
    this.draw();
  }

  toggle(item) {
    this.change(() => (this.places.open[item - this.places.count] ^= 1), item);
  }

  // The item nearest to the middle of the screen, which keeps its place when levels open.
  middle() {
    const [x, y] = [this.left + this.width / 2 / this.scale, this.top + this.height / 2 / this.scale];
    let [found, least] = [this.places.count + this.places.root, Infinity];
    for (const item of this.places.visible) {
      const far = Math.abs(this.places.x[item] - x) + Math.abs(this.places.y[item] - y);
      if (far < least) [found, least] = [item, far];
    }
    return found;
  }

  openTo(level) {
    this.change(() => this.places.openTo(level), this.middle());
    this.clamp();
  }

  // Opens the modules that contain an item, and centres it.
  reveal(item) {
    this.places.expose(item);
    this.lay();
    this.chosen = item;
    if (this.scale < 0.6) this.scale = 1;
    const places = this.places;
    this.left = places.x[item] + places.width[item] / 2 - this.width / 2 / this.scale;
    this.top = places.y[item] + Math.min(places.height[item], BOX) / 2 - this.height / 2 / this.scale;
    this.draw();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, 0.004), 4);
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
    this.clamp();
  }

  pan(across, down) {
    this.left += across / this.scale;
    this.top += down / this.scale;
    this.clamp();
  }

  // Keeps a part of the graph in view.
  clamp() {
    const root = this.places.count + this.places.root;
    const within = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));
    const [across, down] = [this.width / this.scale, this.height / this.scale];
    this.left = within(this.left, -across * 0.75, this.places.width[root] - across * 0.25);
    this.top = within(this.top, -down * 0.75, this.places.height[root] - down * 0.25);
    this.draw();
  }

  drawNow() {
    const [width, height] = [this.width, this.height];
    if (!width || !this.places) return;
    const pen = this.pen;
    const scale = this.clear(width, height) * this.scale;
    pen.setTransform(scale, 0, 0, scale, -this.left * scale, -this.top * scale);
    pen.textBaseline = "middle";
    this.seen = [this.left, this.top, this.left + width / this.scale, this.top + height / this.scale];
    this.drawn = 0;
    const frames = [];
    const boxes = [];
    this.marked = new Set(this.chosen < 0 ? this.pointed : [...this.pointed, this.places.shown(this.chosen)]);
    this.collect(this.places.count + this.places.root, frames, boxes);
    for (const item of frames) this.drawFrame(item);
    this.drawLines();
    if (this.scale > 0.25) for (const item of frames) this.drawTitle(item);
    for (const item of boxes) this.drawBox(item);
    Object.assign(this.canvas.dataset, { drawn: this.drawn, visible: this.places.visible.length });
  }

  // The visible content of an open module. If it is too small to see, only the module itself.
  collect(item, frames, boxes) {
    const { count, all, rows, height } = this.places;
    if (height[item] * this.scale < 4) {
      boxes.push(item);
      return;
    }
    frames.push(item);
    for (const row of rows[item - count]) {
      for (const each of row) {
        if (each >= all || !this.isSeen(each)) continue;
        if (this.places.isOpen(each)) this.collect(each, frames, boxes);
        else boxes.push(each);
      }
    }
  }

  isSeen(item) {
    const { x, y, width, height } = this.places;
    const [left, top, right, bottom] = this.seen;
    return x[item] < right && x[item] + width[item] > left && y[item] < bottom && y[item] + height[item] > top;
  }

  drawFrame(item) {
    const { x, y, width, height, depth } = this.places;
    const pen = this.pen;
    this.drawn += 1;
    pen.fillStyle = etq.shades.get(depth[item] % 2 ? "group-2" : "group");
    pen.strokeStyle = etq.shades.get(this.marked.has(item) ? "accent" : "line");
    pen.lineWidth = this.marked.has(item) ? 2 : 1;
    pen.fillRect(x[item], y[item], width[item], height[item]);
    pen.strokeRect(x[item], y[item], width[item], height[item]);
  }

  // Draws the title of a module on its edge. The title stays in view as long as the module does.
  drawTitle(item) {
    const { x, y, width, depth } = this.places;
    const pen = this.pen;
    const left = Math.max(x[item], Math.min(this.seen[0], x[item] + width[item] - 80));
    pen.font = "600 12px system-ui, sans-serif";
    const text = etq.fitted(pen, etq.printable(etq.short(`− ${this.options.label(item)[0]}`, 120)), x[item] + width[item] - left - 14);
    pen.fillStyle = etq.shades.get(depth[item] % 2 ? "group-2" : "group");
    pen.fillRect(left + 5, y[item] + 3, pen.measureText(text).width + 6, TITLE - 5);
    pen.fillStyle = etq.shades.get("muted");
    pen.fillText(text, left + 8, y[item] + TITLE / 2 + 1);
  }

  drawLines() {
    const pen = this.pen;
    const [left, top, right, bottom] = this.seen;
    const isFine = this.scale > 0.1;
    const chosen = [];
    pen.strokeStyle = etq.shades.get("edge");
    pen.lineWidth = Math.max(1, 0.6 / this.scale);
    pen.globalAlpha = this.hits ? 0.4 : 1;
    pen.beginPath();
    for (const line of this.places.lines) {
      const [x0, y0, x1, y1] = line.box;
      if (x0 > right || x1 < left || y0 > bottom || y1 < top || (y1 - y0) * this.scale < 1.5) continue;
      this.drawn += 1;
      if (line.from === this.chosen || line.to === this.chosen) chosen.push(line);
      else trace(pen, line.points, isFine);
    }
    pen.stroke();
    pen.globalAlpha = 1;
    if (this.scale > 0.3) for (const line of this.places.lines) if (this.isPointSeen(line.points.at(-1))) this.drawHead(line, "edge");
    pen.strokeStyle = etq.shades.get("accent");
    pen.lineWidth = 2;
    pen.beginPath();
    for (const line of chosen) trace(pen, line.points, isFine);
    pen.stroke();
    for (const line of chosen) this.drawHead(line, "accent");
  }

  isPointSeen([x, y]) {
    const [left, top, right, bottom] = this.seen;
    return x > left - 5 && x < right + 5 && y > top - 5 && y < bottom + 8;
  }

  drawHead(line, colour) {
    const [x, y] = line.points.at(-1);
    const pen = this.pen;
    pen.fillStyle = etq.shades.get(colour);
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x - 3.5, y - 6);
    pen.lineTo(x + 3.5, y - 6);
    pen.fill();
  }

  drawBox(item) {
    const { x, y, width, height, count } = this.places;
    const pen = this.pen;
    const colour = this.options.colour(item);
    const isGroup = item >= count;
    this.drawn += 1;
    pen.globalAlpha = this.hits && !this.hits.has(item) ? 0.25 : 1;
    pen.fillStyle = etq.shades.get(colour);
    pen.strokeStyle = etq.shades.get("edge");
    pen.lineWidth = 1;
    if (this.scale < 0.1) {
      if (colour === "heat-0") pen.fillStyle = etq.shades.get("faint");
      pen.fillRect(x[item], y[item], width[item], height[item]);
      pen.globalAlpha = 1;
      return;
    }
    if (isGroup) {
      // A closed module looks like a stack.
      pen.strokeRect(x[item] + 3, y[item] + 3, width[item], height[item]);
      pen.fillStyle = etq.shades.get("back");
      pen.fillRect(x[item], y[item], width[item], height[item]);
      pen.fillStyle = etq.shades.get(colour);
    }
    pen.beginPath();
    pen.roundRect(x[item], y[item], width[item], height[item], isGroup ? 2 : 8);
    pen.fill();
    pen.stroke();
    if (this.marked.has(item)) {
      pen.strokeStyle = etq.shades.get("accent");
      pen.lineWidth = 2.5;
      pen.stroke();
    }
    if (this.scale > 0.35) {
      const [first, second] = this.options.label(item);
      pen.fillStyle = etq.shades.get(`${colour}-text`);
      const middle = x[item] + width[item] / 2;
      pen.textAlign = "center";
      pen.font = `${isGroup ? "600 " : ""}12px system-ui, sans-serif`;
      pen.fillText(etq.fitted(pen, etq.printable(etq.short(isGroup ? `+ ${first}` : first, 60)), width[item] - 8), middle, y[item] + (second ? 13 : 20));
      pen.font = "11px system-ui, sans-serif";
      if (second) pen.fillText(etq.fitted(pen, etq.printable(etq.short(second, 60)), width[item] - 8), middle, y[item] + 27);
      pen.textAlign = "start";
    }
    pen.globalAlpha = 1;
  }

  // The box at a place of the canvas, the innermost module, or -1.
  at(across, down) {
    const [px, py] = [this.left + across / this.scale, this.top + down / this.scale];
    const { x, y, width, height, visible, frames } = this.places;
    const isAt = (item) => px >= x[item] && px <= x[item] + width[item] && py >= y[item] && py <= y[item] + height[item];
    return visible.find(isAt) ?? frames.findLast((item) => isAt(item) && py <= y[item] + TITLE) ?? -1;
  }

  apart(one, other) {
    return Math.hypot(one[0] - other[0], one[1] - other[1]);
  }

  // The wheel moves the page, until the graph has been clicked.
  wheel(event) {
    if (document.activeElement !== this.canvas) return;
    event.preventDefault();
    if (event.shiftKey) this.pan(event.deltaX || event.deltaY, 0);
    else this.pan(event.deltaX, event.deltaY);
  }

  keys() {
    return {
      "+": () => this.zoom(1.4), "=": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4), 0: () => this.fit(),
      ArrowLeft: () => this.pan(-60, 0), ArrowRight: () => this.pan(60, 0),
      ArrowUp: () => this.pan(0, -60), ArrowDown: () => this.pan(0, 60),
      Enter: () => this.options.choose(this.chosen), n: () => this.step(1), p: () => this.step(-1),
    };
  }

  // Goes to the next or previous box in the order of the picture.
  step(by) {
    const boxes = this.places.visible;
    const at = boxes.indexOf(this.places.shown(Math.max(this.chosen, 0)));
    const next = boxes[(Math.max(at, 0) + (at < 0 ? 0 : by) + boxes.length) % boxes.length];
    this.reveal(next);
    this.options.select(next);
  }

  hover(event) {
    const item = this.at(event.offsetX, event.offsetY);
    this.canvas.style.cursor = item < 0 ? "grab" : "pointer";
    if (item < 0) etq.hideTip();
    else etq.showTip(event, this.options.heading(item), this.options.describe(item).slice(0, 8));
    if (item !== this.hovered) this.options.over(item);
    this.hovered = item;
  }
};

// A curve through points, vertical at each.
function trace(pen, points, isFine) {
  pen.moveTo(points[0][0], points[0][2]);
  for (let at = 1; at < points.length; at += 1) {
    const [x0, , y0] = points[at - 1];
    const [x1, y1, y2] = points[at];
    if (!isFine || x0 === x1) pen.lineTo(x1, y1);
    else {
      const bow = y1 > y0 ? (y1 - y0) / 2 : 30;
      pen.bezierCurveTo(x0, y0 + bow, x1, y1 - bow, x1, y1);
    }
    if (y2 > y1) pen.lineTo(x1, y2);
  }
}
