(function () {
  const runs = JSON.parse(document.getElementById('data').textContent);  // [{name, columns}]
  const {series, hide, human, bytes, byteTicks, settings, line, smooth, draw, reset, follow} =
    chartKit(runs.map((r) => r.columns));
  const lines = (values, more = () => ({})) =>
    runs.filter((r) => values(r.columns)).map((r) => {
      const i = runs.indexOf(r);
      return line(r.name, values(r.columns), series(i), {table: r.columns, borderDash: i < 7 ? [] : [6, 3], ...more(r.columns)});
    });

  function drawAll() {
    reset();
    draw('loss', lines((c) => smooth(c.loss)), {legend: true, y: {type: settings.logarithmic ? 'logarithmic' : 'linear'}});
    const heldout = runs.flatMap((r, i) => r.columns.heldout.map((curve) =>
      line(`${r.name}: ${curve.name}`, curve.loss, series(i), {table: curve, pointRadius: 3})));
    if (heldout.length) draw('heldout', heldout, {legend: true});
    else hide('heldout');
    draw('throughput', lines((c) => smooth(c.tokens_per_second)), {legend: true, format: human, y: {beginAtZero: true}});
    const memory = lines((c) => c.memory.total ?? null);
    if (memory.length) draw('memory', memory, {legend: true, format: bytes,
      y: {beginAtZero: true, ticks: byteTicks(Math.max(...runs.flatMap((r) => r.columns.memory.total ?? [0])))}});
    else hide('memory');
  }
  follow(drawAll);
})();
