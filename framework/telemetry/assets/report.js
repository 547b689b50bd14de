(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const {element, colour, series, trafficClasses, trafficColour, ordered, heldoutLine, faint, hide, finite, human, bytes, milliseconds, percent, plain, byteTicks, ticksIn, settings, smooth,
         legendGap, charts, line, smoothed, area, options, draw, drawIfAny, reset, follow} =
    chartKit([data]);

  function drawLoss() {
    const predicts = finite(data.prediction_loss).length > 0;
    element('card-loss').querySelector('p').textContent = 'Nats per token' +
      (settings.smoothing > 0 ? '; faint line: each step; strong line: smoothed.' : ', each step.') +
      (predicts ? ' Prediction blocks: the mean loss of the blocks that predict further tokens.' : '') +
      (data.heldout.length > 1 ? ' Each held-out curve belongs to a different text: compare only points of the same curve.' : '');
    const datasets = smoothed('training', data.loss, series(0));
    if (predicts) datasets.push(...smoothed('prediction blocks', data.prediction_loss, series(6)));
    datasets.unshift(...data.heldout.map((curve, i) => heldoutLine(curve.name, curve, series(2 * i + 1), i)));
    draw('loss', datasets, {legend: true, y: {type: settings.logarithmic ? 'logarithmic' : 'linear'}});
  }

  function drawBalance() {
    const {layers, max_over_mean: values} = data.experts, few = layers.length <= 7;
    const depth = (i) => layers.length === 1 ? colour('depth-last')
      : few ? series(i) : Heatmap.mix(colour('depth-first'), colour('depth-last'), i / (layers.length - 1));
    element('card-balance').querySelector('p').textContent =
      `Largest load as a multiple of the mean load; 1 is perfect balance.${few ? '' : ' The colour shows the depth of the layer.'}`;
    draw('balance', layers.map((layer, i) => line(`layer ${layer}`, smooth(values[i]), depth(i),
                                                  {borderWidth: few ? 2 : 1.25, spanGaps: true})),
         {legend: few, format: (v) => `${plain(Number(v.toPrecision(3)))}×`, y: {suggestedMin: 1}});
  }

  function drawMemory() {
    const shown = data.memory_chart.filter(({name}) => data.memory[name].some((v) => v));
    if (!shown.length) return hide('memory');
    const stacked = shown.filter((kind) => kind.stacked), others = shown.filter((kind) => !kind.stacked);
    const top = (_, i) => Math.max(stacked.reduce((sum, {name}) => sum + data.memory[name][i], 0), ...others.map(({name}) => data.memory[name][i]));
    draw('memory', [...stacked.map(({name, colour: of}, i) => area(name, data.memory[name], colour(of), i === 0)),
                    ...others.map(({name, colour: of}) => line(name, data.memory[name], colour(of), {stack: name, borderDash: [6, 4], order: -1}))],
         {legend: true, stacked: true, format: bytes, y: {min: 0, ticks: byteTicks(Math.max(...data.step.map(top)))}});
  }

  function median(values) {
    const v = finite(values).sort((a, b) => a - b);
    return v.length ? v[Math.floor(v.length / 2)] : 0;
  }

  function drawComm() {
    const names = ordered(Object.keys(data.comm).filter((n) => data.comm[n].bytes.some((v) => v)), trafficClasses);
    if (!names.length) return hide('comm'), hide('time');
    const rows = names.map((n) => {
      // A class may be absent from steps that ran with another parallel layout.
      const of = (values) => median(values.filter((_, i) => data.comm[n].bytes[i]));
      const exposed = of(data.comm[n].exposed_seconds) * 1e3;
      return {exposed, hidden: Math.max(of(data.comm[n].seconds) * 1e3 - exposed, 0), bytes: of(data.comm[n].bytes)};
    });
    const hues = names.map(trafficColour);
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
        scales: {x: {...base.scales.x, max: undefined, stacked: true, beginAtZero: true, bounds: 'ticks', grid: base.scales.y.grid,
                     title: {...base.scales.x.title, text: 'milliseconds per step'}, ticks: {...base.scales.x.ticks, callback: ticksIn(plain)}},
                 y: {stacked: true, grid: {display: false, borderColor: colour('line')}, ticks: {color: colour('ink')}}},
        plugins: {...base.plugins,
          legend: {display: true, align: 'start', onClick: null, labels: {color: colour('muted'), boxWidth: 9, boxHeight: 9, padding: 14,
            generateLabels: () => [{text: 'exposed', fillStyle: colour('muted'), lineWidth: 0, fontColor: colour('muted')},
                                   {text: 'hidden behind computation', fillStyle: faint(colour('series-7')), lineWidth: 0, fontColor: colour('muted')}]}},
          tooltip: {...base.plugins.tooltip, itemSort: undefined, callbacks: {
            label: (item) => ` ${item.dataset.label}: ${milliseconds(item.raw)}`,
            footer: (items) => `${bytes(rows[items[0].dataIndex].bytes)} per step`}}}}}));

    const exposed = names.map((n) => data.comm[n].exposed_seconds.map((s) => s === null ? null : s * 1e3));
    const computing = data.step_seconds.map((s, i) => s === null ? null : Math.max(s * 1e3 - exposed.reduce((sum, e) => sum + e[i], 0), 0));
    draw('time', [area('computation', smooth(computing), series(6), true),
                  ...names.map((n, i) => area(n, smooth(exposed[i]), hues[i], false))],
         {legend: true, stacked: true, format: milliseconds, y: {min: 0, max: timeLimit()}});
  }
  /// Writes the caption of the chart of step times and returns the chart's upper limit. Unusually slow steps are cut
  /// off, because one slow step would flatten the curve of all other steps. The caption gives the longest time. Returns
  /// undefined if no step is unusually slow.
  function timeLimit() {
    const sorted = finite(data.step_seconds).sort((a, b) => a - b);
    const usual = sorted[Math.floor(sorted.length * 0.98)] * 1.25, cut = sorted.at(-1) > 1.5 * usual;
    element('card-time').querySelector('p').textContent = 'Milliseconds per step during which computation waited for communication, by class. All other time counts as computation.' +
      (cut ? ` Single steps took up to ${milliseconds(sorted.at(-1) * 1e3)}.` : '');
    const round = 10 ** Math.floor(Math.log10(usual * 1e3));
    return cut ? Math.ceil(usual * 1e3 / round) * round : undefined;
  }

  /// Draws the MFU. A value above 100% means that the peak is set or measured too low. The chart then cuts the value
  /// off at 100%, and the caption gives the reason.
  function drawMfu() {
    const most = Math.max(0, ...finite(data.mfu));
    element('card-mfu').querySelector('p').textContent = 'Share of the machine\u2019s peak FLOP/s that the matrix products of the model use.' +
      (most > 1 ? ` Steps of up to ${percent(most)} are cut off at 100%: the peak is set (train.peak_flops) or measured too low.` : '');
    const shown = data.mfu.map((v) => v === null ? null : Math.min(v, 1));
    drawIfAny('mfu', [shown], () => smoothed('MFU', shown, series(2)),
              {format: percent, y: {beginAtZero: true, ...(most > 0.8 ? {max: 1} : {})}});
  }

  function drawAll() {
    reset();
    drawLoss();
    draw('lr', [line('learning rate', data.lr, series(0))], {y: {beginAtZero: true}});
    draw('grad', smoothed('gradient norm', data.grad_norm, series(0)), {y: {beginAtZero: true}});
    draw('throughput', smoothed('tokens/s', data.tokens_per_second, series(2)), {format: human, y: {beginAtZero: true}});
    drawMfu();
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

  /// Places half-width cards in pairs. A single card before a wide card or at the end gets the whole row.
  function pairCards() {
    let row = [];
    const close = () => { if (row.length % 2) row.at(-1).classList.add('wide'); row = []; };
    for (const card of document.querySelectorAll('.grid > .card:not([hidden])')) {
      if (card.classList.contains('wide')) close();
      else row.push(card);
    }
    close();
  }

  follow(() => { drawAll(), paintScale(); });
  pairCards();
})();
