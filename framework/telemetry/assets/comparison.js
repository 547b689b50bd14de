(function () {
  const runs = JSON.parse(document.getElementById('data').textContent);  // [{name, columns, settings, exposed}]
  const {element, colour, series, trafficClasses, trafficColour, ordered, heldoutLine, human, bytes, byteTicks, percent, settings, legendGap, charts, line, smooth, options, draw, reset, follow} =
    chartKit(runs.map((r) => r.columns));
  const hidden = new Set();  // indices of runs that the reader has hidden

  // Line styles. Runs get the seven colours with the first style, then the seven colours with the next style.
  const strokes = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
  const look = (i) => ({hex: series(i), dash: strokes[Math.floor(i / 7) % strokes.length]});
  const stroke = (i) => `<svg width="22" height="8" aria-hidden="true"><line x1="0" x2="22" y1="4" y2="4" stroke="${look(i).hex}" stroke-width="3" stroke-dasharray="${look(i).dash.join(' ')}"/></svg>`;

  const lines = (values, more = () => ({})) =>
    runs.map((run, i) => ({run, i})).filter(({run, i}) => !hidden.has(i) && values(run.columns)).map(({run, i}) =>
      line(run.name, values(run.columns), look(i).hex, {table: run.columns, borderDash: look(i).dash, ...more(run.columns)}));
  const drawLines = (id, datasets, settingsOf) => { element(`card-${id}`).hidden = !datasets.length; if (datasets.length) draw(id, datasets, settingsOf); };

  /// Draws one legend for all line charts. A legend with a dozen names in each chart would leave too little space for
  /// the lines. Also draws the marks of the runs in the tables.
  function drawLegend() {
    element('legend').replaceChildren(...runs.map((run, i) => {
      const item = document.createElement('li'), button = document.createElement('button');
      button.innerHTML = stroke(i);
      button.append(run.name);
      button.title = run.settings;
      button.setAttribute('aria-pressed', String(!hidden.has(i)));
      button.addEventListener('click', () => { if (!hidden.delete(i)) hidden.add(i); drawAll(); });
      item.append(button);
      return item;
    }));
    document.querySelectorAll('[data-run]').forEach((mark) => { mark.innerHTML = stroke(Number(mark.dataset.run)); });
  }

  function drawShares() {
    const shown = runs.filter((_, i) => !hidden.has(i)), names = ordered([...new Set(shown.flatMap((r) => Object.keys(r.exposed).filter((n) => r.exposed[n] > 0)))], trafficClasses);
    element('card-shares').hidden = !names.length;
    if (!names.length) return;
    element('shares-plot').style.height = `${70 + 26 * shown.length}px`;
    const rest = (run) => Math.max(1 - names.reduce((sum, n) => sum + (run.exposed[n] ?? 0), 0), 0);
    const bar = (label, values, hex) => ({label, data: values, backgroundColor: hex, borderColor: colour('surface'), borderWidth: {right: 1}, maxBarThickness: 18});
    const base = options({format: percent, legend: true});
    element('shares').setAttribute('role', 'img');
    element('shares').setAttribute('aria-label', shown.map((r) => `${r.name}: ${names.map((n) => `${n} ${percent(r.exposed[n] ?? 0)}`).join(', ')}`).join('; '));
    charts.push(new Chart(element('shares'), {
      type: 'bar', plugins: [legendGap],
      data: {labels: shown.map((r) => (r.name.length > 28 ? `${r.name.slice(0, 27)}…` : r.name)),
             datasets: [bar('computation', shown.map(rest), series(6)),
                        ...names.map((n) => bar(n, shown.map((r) => r.exposed[n] ?? 0), trafficColour(n)))]},
      options: {...base, indexAxis: 'y', interaction: {mode: 'index', axis: 'y', intersect: false},
        scales: {x: {...base.scales.y, stacked: true, min: 0, max: 1},
                 y: {stacked: true, grid: {display: false}, ticks: {color: colour('ink'), autoSkip: false}}},
        plugins: {...base.plugins, legend: {...base.plugins.legend, onClick: null},
          tooltip: {...base.plugins.tooltip, callbacks: {label: (item) => ` ${item.dataset.label}: ${percent(item.raw)}`}}}}}));
  }

  function drawAll() {
    reset();
    drawLegend();
    drawLines('loss', lines((c) => smooth(c.loss)), {y: {type: settings.logarithmic ? 'logarithmic' : 'linear'}});
    drawLines('heldout', runs.flatMap((run, i) => hidden.has(i) ? [] : run.columns.heldout.map((curve, n) =>
      heldoutLine(`${run.name}: ${curve.name}`, curve, look(i).hex, n, {borderDash: look(i).dash}))), {});
    drawLines('throughput', lines((c) => smooth(c.tokens_per_second)), {format: human, y: {beginAtZero: true}});
    drawLines('memory', lines((c) => c.memory.total ?? null), {format: bytes,
      y: {beginAtZero: true, ticks: byteTicks(Math.max(...runs.flatMap((r) => r.columns.memory.total ?? [0])))}});
    drawShares();
  }
  follow(drawAll);
})();
