'use strict';

/// A heat map with layers as rows and experts as columns. The colour is the load relative to an equal share, on a
/// logarithmic scale: blue is a small load, grey is an equal share, orange is a large load.
class Heatmap {
  constructor(experts, colour) {
    this.experts = experts;
    this.colour = colour;  // function: name of a CSS variable -> its value
    this.canvas = document.getElementById('heatmap');
    this.tip = document.getElementById('heat-tip');
    this.slider = document.getElementById('heat-step');
    this.slider.max = experts.snapshots.length - 1;
    this.slider.value = this.slider.max;
    this.slider.addEventListener('input', () => this.draw());
    this.canvas.addEventListener('mousemove', (event) => this.point(event));
    this.canvas.addEventListener('mouseleave', () => { this.tip.hidden = true; });
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
  }

  static rgb(hex) { return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)); }

  static mix(from, to, share) {
    const [a, b] = [Heatmap.rgb(from), Heatmap.rgb(to)];
    return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * share)).join(',')})`;
  }

  /// Returns black or white, whichever is easier to read on the colour `rgb(...)`. The contrast is at least 4.5 on any
  /// colour.
  static readable(background) {
    const [r, g, b] = background.match(/\d+/g).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? '#000000' : '#ffffff';
  }

  /// Returns the colour of a load. If `relative` is 1, the load is an equal share. The scale ends at 1/4 and 4.
  shade(relative) {
    const doublings = Math.max(-2, Math.min(2, Math.log2(Math.max(relative, 1e-9))));
    const end = this.colour(doublings < 0 ? 'heat-low' : 'heat-high');
    return Heatmap.mix(this.colour('heat-middle'), end, Math.abs(doublings) / 2);
  }

  draw() {
    const snapshot = this.experts.snapshots[this.slider.value];
    const rows = snapshot.load.length, columns = Math.max(...snapshot.load.map((row) => row.length));
    const width = this.canvas.parentElement.clientWidth, left = 64, bottom = 36;
    const high = Math.max(4, Math.min(30, Math.floor(480 / rows))), wide = (width - left) / columns;
    this.box = {left, wide, high, rows, columns};
    const height = rows * high + bottom, scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext('2d');
    pen.scale(scale, scale);
    const gap = Math.min(wide, high) > 6 ? 1 : 0, written = wide > 34 && high >= 16;
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = 'middle';
    snapshot.load.forEach((row, y) => row.forEach((share, x) => {
      const relative = share * row.length;
      const shade = this.shade(relative);
      pen.fillStyle = shade;
      pen.fillRect(left + x * wide, y * high, wide - gap, high - gap);
      if (!written) return;
      pen.textAlign = 'center';
      pen.fillStyle = Heatmap.readable(shade);
      pen.fillText(relative.toFixed(2), left + (x + 0.5) * wide, (y + 0.5) * high);
    }));
    this.labels(pen);
    this.describe(snapshot);
  }

  labels(pen) {
    const {left, wide, high, rows, columns} = this.box;
    pen.fillStyle = this.colour('muted');
    pen.textAlign = 'right';
    const everyRow = Math.ceil(16 / high), everyColumn = Math.max(1, 2 ** Math.ceil(Math.log2(30 / wide)));
    for (let y = 0; y < rows; y += everyRow) pen.fillText(`layer ${this.experts.layers[y]}`, left - 8, (y + 0.5) * high);
    pen.textAlign = 'center';
    for (let x = 0; x < columns; x += everyColumn) pen.fillText(x, left + (x + 0.5) * wide, rows * high + 11);
    pen.fillText('expert', left + (columns * wide) / 2, rows * high + 27);
  }

  describe(snapshot) {
    let most = {relative: -1}, least = {relative: Infinity};
    snapshot.load.forEach((row, y) => row.forEach((share, expert) => {
      const cell = {relative: share * row.length, layer: this.experts.layers[y], expert};
      if (cell.relative > most.relative) most = cell;
      if (cell.relative < least.relative) least = cell;
    }));
    const say = (cell) => `layer ${cell.layer}, expert ${cell.expert} (${cell.relative.toFixed(2)}×)`;
    const text = `Busiest: ${say(most)}. Least busy: ${say(least)}.`;
    document.getElementById('heat-summary').textContent = text;
    document.getElementById('heat-step-value').textContent = snapshot.step.toLocaleString('en');
    this.canvas.setAttribute('aria-label', `Expert load at step ${snapshot.step}. ${text}`);
  }

  point(event) {
    const {left, wide, high} = this.box;
    const x = Math.floor((event.offsetX - left) / wide), y = Math.floor(event.offsetY / high);
    const row = this.experts.snapshots[this.slider.value].load[y];
    this.tip.hidden = !(row && x in row);
    if (this.tip.hidden) return;
    this.tip.textContent = `layer ${this.experts.layers[y]}, expert ${x}: ${(row[x] * row.length).toFixed(2)}× ` +
      `(${(100 * row[x]).toPrecision(3)}% of the layer's token-expert pairs)`;
    const width = this.canvas.clientWidth;
    this.tip.style.left = `${Math.min(event.offsetX + 12, width - this.tip.offsetWidth)}px`;
    this.tip.style.top = `${event.offsetY + 14}px`;
  }
}
