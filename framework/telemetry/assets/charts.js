// Functions shared by the charts of report.html and of a comparison. `tables` has the columns of each run. The values
// of a line belong to the first table unless the line names another table.
function chartKit(tables) {
  const longest = (of) => Math.max(...tables.map(of));
  const element = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const series = (i) => colour(`series-${(i % 7) + 1}`);
  // The order is fixed. A class therefore has the same colour and position in every page (see traffic_legend.cpp).
  const trafficClasses = ['ep', 'tp', 'cp', 'pp', 'dp', 'control'];
  const place = (order, name) => (order.indexOf(name) < 0 ? order.length : order.indexOf(name));
  const ordered = (names, order) => names.sort((a, b) => place(order, a) - place(order, b) || a.localeCompare(b));
  const trafficColour = (name) => series(place(trafficClasses, name));
  const faint = (hex) => `${hex}4d`;  // the colour with an opacity of 30%
  const hide = (card) => { element(`card-${card}`).hidden = true; };
  const finite = (values) => values.filter((v) => v !== null);

  // Numbers ------------------------------------------------------------------------------------------------------
  const exponentBelow = 1e-3;
  /// Returns a function that formats a number with a unit that suits `top`, the largest value. All ticks of an axis
  /// then have the same unit.
  const scaled = (units, base) => (value, top = value) => {
    if (value === null || value === undefined) return 'not finite';
    let i = 0, unit = 1;
    while (Math.abs(top) / unit >= base * 0.9995 && i + 1 < units.length) unit *= base, ++i;
    const v = value / unit;
    if (v !== 0 && Math.abs(v) < exponentBelow) return `${exponent(v)}${units[i]}`;
    return `${Number(v.toPrecision(Math.abs(v) >= 1000 ? 4 : 3))}${v === 0 ? '' : units[i]}`;
  };
  const human = scaled(['', ' k', ' M', ' B', ' T'], 1000);
  const bytes = scaled([' B', ' KiB', ' MiB', ' GiB', ' TiB'], 1024);
  const milliseconds = scaled([' ms', ' s'], 1000);
  const percent = (v) => `${Number((100 * v).toPrecision(3))}%`;
  const exponent = (v) => Number(v.toPrecision(3)).toExponential();
  const ticksIn = (format) => (v, i, ticks) => format(v, Math.max(...ticks.map((t) => Math.abs(t.value))));
  const plain = (v) => v === null ? 'not finite'
    : v !== 0 && Math.abs(v) < exponentBelow ? exponent(v) : Number(v.toPrecision(5)).toString();

  // Horizontal axis ----------------------------------------------------------------------------------------------
  const lastSecond = longest((t) => t.seconds.at(-1)) || 1;
  const [timeUnit, timeName] = lastSecond < 180 ? [1, 's'] : lastSecond < 3 * 3600 ? [60, 'min'] : [3600, 'h'];
  const axes = {
    step: {title: 'step', of: (t) => t.step, format: (v) => (Number.isInteger(v) ? v.toLocaleString('en') : '')},
    tokens: {title: 'tokens', of: (t) => t.tokens, format: human},
    seconds: {title: `training time (${timeName})`, of: (t) => t.seconds.map((s) => s / timeUnit), format: plain},
  };
  // The default depends on the length of each run: short runs are not smoothed, because smoothing causes lag. A value
  // chosen by the reader applies to all runs.
  const usualSmoothing = (steps) => (steps < 100 ? 0 : steps < 1000 ? 0.6 : 0.85);
  const settings = {axis: 'step', smoothing: usualSmoothing(longest((t) => t.step.length)), chosen: false, logarithmic: false};
  const smoothingOf = (values) => (settings.chosen ? settings.smoothing : usualSmoothing(values.length));
  const points = (values, of) => {
    const x = axes[settings.axis].of(of);
    return values.map((y, i) => ({x: x[i], y, step: of.step[i]}));
  };

  /// Returns the exponential moving average without start-up bias. Values that are null (missing or not finite) leave a
  /// gap and do not change the average.
  function smooth(values) {
    const keep = smoothingOf(values);
    let sum = 0, weight = 0;
    return values.map((v) => {
      if (v === null) return null;
      sum = keep * sum + (1 - keep) * v;
      weight = keep * weight + (1 - keep);
      return sum / weight;
    });
  }

  // Charts -------------------------------------------------------------------------------------------------------
  /// Draws a vertical line at the position under the pointer in every line chart, to compare a spike between charts.
  const crosshair = {
    id: 'crosshair', at: null,
    afterEvent(chart, {event}) {
      if (chart.config.type !== 'line') return;
      const inside = event.type !== 'mouseout' && event.x >= chart.chartArea.left && event.x <= chart.chartArea.right;
      this.at = inside ? chart.scales.x.getValueForPixel(event.x) : null;
      charts.forEach((other) => other !== chart && other.config.type === 'line' && other.draw());
    },
    afterDatasetsDraw(chart) {
      if (this.at === null || chart.config.type !== 'line') return;
      const x = chart.scales.x.getPixelForValue(this.at), {left, right, top, bottom} = chart.chartArea;
      if (x < left || x > right) return;
      const pen = chart.ctx;
      pen.save();
      pen.strokeStyle = colour('muted');
      pen.setLineDash([3, 3]);
      pen.beginPath(), pen.moveTo(x, top), pen.lineTo(x, bottom), pen.stroke();
      pen.restore();
    },
  };
  /// Adds space between the legend and the plot; Chart.js has no setting for it.
  const legendGap = {
    id: 'legendGap',
    beforeInit({legend}) {
      const fit = legend.fit;
      legend.fit = function () { fit.call(legend), legend.height += 8; };
    },
  };
  const charts = [];

  function line(label, values, hex, more = {}) {
    const alone = finite(values).length === 1 ? {pointRadius: 3, clip: 3} : {};  // a single value is drawn as a point
    return {label, data: points(values, more.table ?? tables[0]), borderColor: hex, backgroundColor: hex, borderWidth: 2, pointRadius: 0,
            pointHitRadius: 0, pointHoverRadius: 4, tension: 0, ...alone, ...more};
  }
  /// Returns the line of the evaluations of one text. The first line of a run has dots, unless it has more than 60
  /// points. Later lines have hollow diamonds in front of the dots, so points of several lines at the same step remain
  /// visible.
  function heldoutLine(label, curve, hex, i, more = {}) {
    const dots = curve.step.length > 60 ? 0 : curve.step.length === 1 ? 4 : 3;
    const marks = i === 0 ? {pointRadius: dots}
      : {pointRadius: 6 + 2 * (i - 1), pointStyle: 'rectRot', pointBackgroundColor: 'transparent', pointBorderWidth: 2, order: -i};
    return line(label, curve.loss, hex, {table: curve, hex, clip: 12, ...marks, ...more});
  }
  /// Returns a line of the smoothed values, and behind it a faint line of the value of each step. Without smoothing,
  /// returns only one line.
  function smoothed(label, values, hex) {
    if (smoothingOf(values) === 0) return [line(label, values, hex)];
    return [line(label, smooth(values), hex),
            line(`${label}, each step`, values, hex, {borderColor: faint(hex), borderWidth: 1, raw: true})];
  }
  function area(label, values, hex, first) {
    return {...line(label, values, hex), hex, backgroundColor: `${hex}d9`, borderWidth: 0, fill: first ? 'origin' : '-1'};
  }

  function options({format = plain, stacked = false, legend = false, y = {}}) {
    const text = {color: colour('muted')}, grid = {color: colour('grid'), drawTicks: false};
    const end = longest((t) => axes[settings.axis].of(t).at(-1)) || undefined;  // the longest run's end, to align all charts
    return {
      animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
      interaction: {mode: 'nearest', axis: 'x', intersect: false},
      scales: {
        x: {type: 'linear', bounds: 'data', min: 0, max: end, grid: {...grid, display: false}, border: {color: colour('line')},
            title: {display: true, text: axes[settings.axis].title, ...text},
            ticks: {...text, maxRotation: 0, autoSkipPadding: 24, callback: ticksIn(axes[settings.axis].format)}},
        y: {stacked, grid: {...grid, borderColor: 'transparent'}, ticks: {...text, padding: 8, maxTicksLimit: 7, callback: ticksIn(format)}, ...y},
      },
      plugins: {
        legend: {display: legend, align: 'start',
                 labels: {...text, usePointStyle: true, pointStyle: 'rectRounded', boxWidth: 9, boxHeight: 9, padding: 14,
                          generateLabels: (chart) => Chart.defaults.plugins.legend.labels.generateLabels(chart)
                            .map((l) => ({...l, fillStyle: chart.data.datasets[l.datasetIndex].hex ?? l.fillStyle, lineWidth: 0})),
                          filter: (item, chart) => !chart.datasets[item.datasetIndex].raw}},
        tooltip: {backgroundColor: colour('ink'), titleColor: colour('surface'), bodyColor: colour('surface'), padding: 10,
                  boxPadding: 4, usePointStyle: true, itemSort: stacked ? (a, b) => b.datasetIndex - a.datasetIndex : undefined,
                  callbacks: {title: (items) => items.length ? `step ${items[0].raw.step.toLocaleString('en')}` : '',
                              label: (item) => ` ${item.dataset.label}: ${format(item.raw.y)}`}},
      },
    };
  }

  const legendPlugins = (legend) => (legend ? [crosshair, legendGap] : [crosshair]);

  function draw(id, datasets, settingsOf) {
    const label = datasets.filter((d) => !d.raw).map((d) => {
      const values = finite(d.data.map((p) => p.y ?? p.x));
      return `${d.label}: last ${plain(values.at(-1) ?? null)}, least ${plain(Math.min(...values))}, most ${plain(Math.max(...values))}`;
    });
    element(id).setAttribute('role', 'img');
    element(id).setAttribute('aria-label', label.slice(0, 8).join('; '));
    charts.push(new Chart(element(id), {type: 'line', data: {datasets}, options: options(settingsOf), plugins: legendPlugins(settingsOf.legend)}));
  }

  /// Draws the chart, or hides its card if every value is absent or zero. For example, a run without experts has no
  /// router values.
  function drawIfAny(id, columns, datasets, settingsOf) {
    if (!columns.some((values) => values.some((v) => v))) return hide(id);
    draw(id, datasets(), settingsOf);
  }

  /// Returns options that place ticks at multiples of a power of two, because the library's ticks are round in decimal.
  function byteTicks(top) {
    return {stepSize: 2 ** Math.ceil(Math.log2(Math.max(top, 1) / 5)), color: colour('muted'), padding: 8, callback: ticksIn(bytes)};
  }

  /// Removes all charts and resets the font before they are drawn again.
  function reset() {
    charts.splice(0).forEach((chart) => chart.destroy());
    crosshair.at = null;
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.font.size = 12;
  }

  /// Calls `drawAll` now and whenever a setting of the toolbar or the colour scheme changes.
  function follow(drawAll) {
    const lengths = new Set(tables.map((t) => usualSmoothing(t.step.length)));
    const usual = lengths.size > 1 ? 'by length of run' : settings.smoothing.toFixed(2);
    element('toolbar').addEventListener('submit', (event) => event.preventDefault());
    const showSmoothing = () => { element('smoothing-value').textContent = settings.chosen ? settings.smoothing.toFixed(2) : usual; };
    element('smoothing').value = settings.smoothing;
    showSmoothing();
    element('toolbar').addEventListener('input', (event) => {
      settings.axis = document.querySelector('input[name=axis]:checked').value;
      settings.smoothing = Number(element('smoothing').value);
      settings.chosen ||= event.target === element('smoothing');
      settings.logarithmic = element('log-loss').checked;
      showSmoothing();
      drawAll();
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
    drawAll();
  }

  return {element, colour, series, trafficClasses, trafficColour, ordered, heldoutLine, faint, hide, finite, human, bytes, milliseconds, percent, plain, byteTicks, ticksIn, settings, smooth,
          legendGap, charts, line, smoothed, area, options, draw, drawIfAny, reset, follow};
}
