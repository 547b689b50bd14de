(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const element = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const series = (i) => colour(`series-${(i % 7) + 1}`);
  const faint = (hex) => `${hex}4d`;  // a third of the opacity
  const hide = (card) => { element(`card-${card}`).hidden = true; };
  const finite = (values) => values.filter((v) => v !== null);

  // Numbers ------------------------------------------------------------------------------------------------------
  const exponentBelow = 1e-3;
  function human(value, prefixes = ['', ' k', ' M', ' B', ' T'], base = 1000) {
    if (value === null || value === undefined) return 'not finite';
    let i = 0, v = value;
    while (Math.abs(v) >= base * 0.9995 && i + 1 < prefixes.length) v /= base, ++i;
    if (v !== 0 && Math.abs(v) < exponentBelow) return exponent(v);
    return `${Number(v.toPrecision(Math.abs(v) >= 1000 ? 4 : 3))}${prefixes[i]}`;
  }
  const bytes = (v) => human(v, [' B', ' KiB', ' MiB', ' GiB', ' TiB'], 1024);
  const percent = (v) => `${Number((100 * v).toPrecision(3))}%`;
  const milliseconds = (v) => `${human(v)} ms`;
  const exponent = (v) => Number(v.toPrecision(3)).toExponential();
  const plain = (v) => v === null ? 'not finite'
    : v !== 0 && Math.abs(v) < exponentBelow ? exponent(v) : Number(v.toPrecision(5)).toString();

  // Horizontal axis ----------------------------------------------------------------------------------------------
  const lastSecond = data.seconds.at(-1) || 1;
  const [timeUnit, timeName] = lastSecond < 180 ? [1, 's'] : lastSecond < 3 * 3600 ? [60, 'min'] : [3600, 'h'];
  const axes = {
    step: {title: 'step', of: (t) => t.step},
    tokens: {title: 'tokens', of: (t) => t.tokens},
    seconds: {title: `training time (${timeName})`, of: (t) => t.seconds.map((s) => s / timeUnit)},
  };
  // Smoothing lags: a short run is shown as it is.
  const steps = data.step.length;
  const settings = {axis: 'step', smoothing: steps < 100 ? 0 : steps < 1000 ? 0.6 : 0.85, logarithmic: false};
  const points = (values, table = data) => {
    const x = axes[settings.axis].of(table);
    return values.map((y, i) => ({x: x[i], y, step: table.step[i]}));
  };

  /// Exponential moving average without its start-up bias; values that are not finite leave a gap and no trace.
  function smooth(values) {
    const keep = settings.smoothing;
    let sum = 0, weight = 0;
    return values.map((v) => {
      if (v === null) return null;
      sum = keep * sum + (1 - keep) * v;
      weight = keep * weight + (1 - keep);
      return sum / weight;
    });
  }

  // Charts -------------------------------------------------------------------------------------------------------
  /// Draws a line at the step under the pointer in every chart, so that a spike can be followed through all of them.
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
  /// Air between the legend and the plot, which Chart.js has no setting for.
  const legendGap = {
    id: 'legendGap',
    beforeInit({legend}) {
      const fit = legend.fit;
      legend.fit = function () { fit.call(legend), legend.height += 8; };
    },
  };
  const charts = [];

  function line(label, values, hex, more = {}) {
    return {label, data: points(values, more.table), borderColor: hex, backgroundColor: hex, borderWidth: 2, pointRadius: 0,
            pointHitRadius: 0, pointHoverRadius: 4, tension: 0, ...more};
  }
  /// Each step in faint, the smoothed values in front.
  function smoothed(label, values, hex) {
    if (settings.smoothing === 0) return [line(label, values, hex)];
    return [line(label, smooth(values), hex),
            line(`${label}, each step`, values, hex, {borderColor: faint(hex), borderWidth: 1, raw: true})];
  }
  function area(label, values, hex, first) {
    return {...line(label, values, hex), hex, backgroundColor: `${hex}d9`, borderWidth: 0, fill: first ? 'origin' : '-1'};
  }

  function options({format = plain, stacked = false, legend = false, y = {}}) {
    const text = {color: colour('muted')}, grid = {color: colour('grid'), drawTicks: false};
    return {
      animation: false, responsive: true, maintainAspectRatio: false, normalized: true,
      interaction: {mode: 'nearest', axis: 'x', intersect: false},
      scales: {
        x: {type: 'linear', bounds: 'data', min: 0, grid: {...grid, display: false}, border: {color: colour('line')},
            title: {display: true, text: axes[settings.axis].title, ...text},
            ticks: {...text, maxRotation: 0, autoSkipPadding: 24, callback: (v) => human(v)}},
        y: {stacked, grid: {...grid, borderColor: 'transparent'}, ticks: {...text, padding: 8, maxTicksLimit: 7, callback: (v) => format(v)}, ...y},
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

  /// Draws unless every value is absent or zero: a run without experts has no router to show.
  function drawIfAny(id, columns, datasets, settingsOf) {
    if (!columns.some((values) => values.some((v) => v))) return hide(id);
    draw(id, datasets(), settingsOf);
  }

  function drawLoss() {
    const datasets = smoothed('training', data.loss, series(0));
    if (data.eval.step.length) {
      datasets.unshift(line('held-out', data.eval.loss, series(1), {
        table: data.eval, pointRadius: data.eval.step.length > 60 ? 0 : 3, pointStyle: 'circle'}));
    }
    draw('loss', datasets, {legend: true, y: {type: settings.logarithmic ? 'logarithmic' : 'linear'}});
  }

  function drawBalance() {
    const {layers, max_over_mean: values} = data.experts, few = layers.length <= 7;
    const depth = (i) => layers.length === 1 ? colour('depth-last')
      : few ? series(i) : Heatmap.mix(colour('depth-first'), colour('depth-last'), i / (layers.length - 1));
    element('card-balance').querySelector('p').textContent =
      `Largest load over the mean; 1 is perfect balance.${few ? '' : ' Colour follows depth.'}`;
    draw('balance', layers.map((layer, i) => line(`layer ${layer}`, smooth(values[i]), depth(i),
                                                  {borderWidth: few ? 2 : 1.25, spanGaps: true})),
         {legend: few, format: (v) => `${plain(Number(v.toPrecision(3)))}×`, y: {suggestedMin: 1}});
  }

  // A fixed order, so that a category keeps its colour and its place in every run.
  const categories = ['parameter', 'gradient', 'optimizer', 'activation', 'temporary', 'communication'];
  const trafficClasses = ['ep', 'tp', 'cp', 'pp', 'dp', 'control'];
  const place = (order, name) => (order.indexOf(name) < 0 ? order.length : order.indexOf(name));
  const ordered = (names, order) => names.sort((a, b) => place(order, a) - place(order, b) || a.localeCompare(b));

  function drawMemory() {
    const names = ordered(Object.keys(data.memory).filter((n) => n !== 'total' && data.memory[n].some((v) => v)), categories);
    if (!names.length) return hide('memory');
    draw('memory', names.map((n, i) => area(n, data.memory[n], series(place(categories, n)), i === 0)),
         {legend: true, stacked: true, format: bytes, y: {ticks: byteTicks(names)}});
  }
  /// Ticks at round binary sizes; the library's own are round in decimal.
  function byteTicks(names) {
    const top = Math.max(...data.step.map((_, i) => names.reduce((sum, n) => sum + data.memory[n][i], 0)));
    const step = 2 ** Math.ceil(Math.log2(top / 5));
    return {stepSize: step, color: colour('muted'), padding: 8, callback: (v) => bytes(v)};
  }

  function median(values) {
    const v = finite(values).sort((a, b) => a - b);
    return v.length ? v[Math.floor(v.length / 2)] : 0;
  }

  function drawComm() {
    const names = ordered(Object.keys(data.comm).filter((n) => data.comm[n].seconds.some((v) => v)), trafficClasses);
    if (!names.length) return hide('comm'), hide('time');
    const rows = names.map((n) => {
      const exposed = median(data.comm[n].exposed_seconds) * 1e3;
      return {exposed, hidden: Math.max(median(data.comm[n].seconds) * 1e3 - exposed, 0), bytes: median(data.comm[n].bytes)};
    });
    const hues = names.map((n) => series(place(trafficClasses, n)));
    const base = options({format: milliseconds});
    element('comm').setAttribute('role', 'img');
    element('comm').setAttribute('aria-label', names.map((n, i) =>
      `${n}: ${milliseconds(rows[i].exposed)} exposed, ${milliseconds(rows[i].hidden)} hidden`).join('; '));
    charts.push(new Chart(element('comm'), {
      type: 'bar', plugins: [legendGap],
      data: {labels: names, datasets: [
        {label: 'exposed', data: rows.map((r) => r.exposed), backgroundColor: hues},
        {label: 'hidden behind computation', data: rows.map((r) => r.hidden), backgroundColor: hues.map(faint)}]
        .map((d) => ({...d, maxBarThickness: 26, borderColor: colour('surface'), borderWidth: {right: 1}}))},
      options: {...base, indexAxis: 'y', interaction: {mode: 'index', axis: 'y', intersect: false},
        scales: {x: {...base.scales.x, stacked: true, beginAtZero: true, bounds: 'ticks', grid: base.scales.y.grid,
                     title: {...base.scales.x.title, text: 'milliseconds a step'}},
                 y: {stacked: true, grid: {display: false, borderColor: colour('line')}, ticks: {color: colour('ink')}}},
        plugins: {...base.plugins,
          legend: {display: true, align: 'start', onClick: null, labels: {color: colour('muted'), boxWidth: 9, boxHeight: 9, padding: 14,
            generateLabels: () => [{text: 'exposed', fillStyle: colour('muted'), lineWidth: 0, fontColor: colour('muted')},
                                   {text: 'hidden behind computation', fillStyle: faint(colour('series-7')), lineWidth: 0, fontColor: colour('muted')}]}},
          tooltip: {...base.plugins.tooltip, itemSort: undefined, callbacks: {
            label: (item) => ` ${item.dataset.label}: ${milliseconds(item.raw)}`,
            footer: (items) => `${bytes(rows[items[0].dataIndex].bytes)} a step`}}}}}));

    const exposed = names.map((n) => data.comm[n].exposed_seconds.map((s) => s === null ? null : s * 1e3));
    const computing = data.step_seconds.map((s, i) => s === null ? null : Math.max(s * 1e3 - exposed.reduce((sum, e) => sum + e[i], 0), 0));
    draw('time', [area('computation', smooth(computing), series(6), true),
                  ...names.map((n, i) => area(n, smooth(exposed[i]), hues[i], false))],
         {legend: true, stacked: true, format: milliseconds, y: {min: 0, max: timeLimit()}});
  }
  /// A slow first step would flatten all others: what is far beyond the usual is cut off, and the caption says so.
  function timeLimit() {
    const sorted = finite(data.step_seconds).sort((a, b) => a - b);
    const usual = sorted[Math.floor(sorted.length * 0.98)] * 1.25, cut = sorted.at(-1) > 1.5 * usual;
    element('card-time').querySelector('p').textContent = 'Computation, and exposed communication by class.' +
      (cut ? ` Single steps took up to ${milliseconds(sorted.at(-1) * 1e3)}.` : '');
    const round = 10 ** Math.floor(Math.log10(usual * 1e3));
    return cut ? Math.ceil(usual * 1e3 / round) * round : undefined;
  }

  function drawAll() {
    charts.splice(0).forEach((chart) => chart.destroy());
    crosshair.at = null;
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.font.size = 12;
    drawLoss();
    draw('lr', [line('learning rate', data.lr, series(0))], {y: {beginAtZero: true}});
    draw('grad', smoothed('gradient norm', data.grad_norm, series(0)), {y: {beginAtZero: true}});
    draw('throughput', smoothed('tokens/s', data.tokens_per_second, series(2)), {format: (v) => human(v), y: {beginAtZero: true}});
    drawIfAny('mfu', [data.mfu], () => smoothed('MFU', data.mfu, series(2)), {format: percent, y: {beginAtZero: true}});
    if (data.experts.layers.length) drawBalance();
    drawIfAny('router', [data.aux_loss, data.z_loss], () => [
      ...smoothed('load balance', data.aux_loss, series(3)), ...smoothed('z-loss', data.z_loss, series(5))]
      .filter((d) => d.data.some((p) => p.y)), {legend: true, y: {beginAtZero: true}});
    drawIfAny('dropped', [data.dropped_fraction], () => smoothed('dropped', data.dropped_fraction, series(1)),
              {format: percent, y: {beginAtZero: true}});
    drawMemory();
    drawComm();
  }

  const heatmap = data.experts.layers.length ? new Heatmap(data.experts, colour) : null;
  if (!heatmap) hide('heatmap'), hide('balance');
  function paintScale() {
    if (!heatmap) return;
    const stops = [-2, -1, 0, 1, 2].map((d) => heatmap.shade(2 ** d));
    element('heat-scale').style.background = `linear-gradient(to right, ${stops.join(', ')})`;
    heatmap.draw();
  }

  /// Half-width cards stand in pairs; one left over before a wide card takes the whole row.
  function pairCards() {
    let row = [];
    const close = () => { if (row.length % 2) row.at(-1).classList.add('wide'); row = []; };
    for (const card of document.querySelectorAll('.grid > .card:not([hidden])')) {
      if (card.classList.contains('wide')) close();
      else row.push(card);
    }
    close();
  }

  element('toolbar').addEventListener('submit', (event) => event.preventDefault());
  const showSmoothing = () => { element('smoothing-value').textContent = settings.smoothing.toFixed(2); };
  element('smoothing').value = settings.smoothing;
  showSmoothing();
  element('toolbar').addEventListener('input', () => {
    settings.axis = document.querySelector('input[name=axis]:checked').value;
    settings.smoothing = Number(element('smoothing').value);
    settings.logarithmic = element('log-loss').checked;
    showSmoothing();
    drawAll();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { drawAll(), paintScale(); });
  drawAll();
  paintScale();
  pairCards();
})();
