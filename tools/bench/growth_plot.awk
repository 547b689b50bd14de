# Draws the number of messages of a rank by the number of ranks, before and now. Needs growth_before.awk. Has the same
# input as growth_table.awk. Skips activities whose earlier messages are not known. Prints a plot in which one # is a
# factor of 2. Writes the same plot as a logarithmic SVG to the file `svg` if `svg` is not empty.

function log2(x) { return x > 1 ? log(x) / log(2) : 0 }
function bar(x,    i, text) {
  for (i = 0; i < log2(x); ++i) text = text "#"
  return text
}
function x_of(ranks) {
  return left + (width - left - right) * (log2(ranks) - log2(least)) / max(1, log2(most_ranks) - log2(least))
}
function y_of(messages) { return height - bottom - (height - top - bottom) * log2(messages) / max(1, log2(most)) }
function max(a, b) { return a > b ? a : b }

messages_before($2, $1) == "" { next }
{
  if (!($2 in first)) { first[$2] = NR; order[++kinds] = $2 }
  ranks[$2, ++count[$2]] = $1
  now[$2, count[$2]] = $3
  before[$2, count[$2]] = messages_before($2, $1)
  if (least == "" || $1 < least) least = $1
  most_ranks = max(most_ranks, $1)
  most = max(most, max($3, before[$2, count[$2]]))
}

function line(k, values, dashes,    i, points) {
  for (i = 1; i <= count[order[k]]; ++i)
    points = points sprintf("%.1f,%.1f ", x_of(ranks[order[k], i]), y_of(values[order[k], i]))
  printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", points, colour[k],
    dashes ? " stroke-dasharray=\"6 4\"" : "" >svg
}

function label(x, y, anchor, text) {
  printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text >svg
}

function draw(    k, i, power) {
  width = 860; height = 360; left = 80; right = 230; top = 20; bottom = 50
  split("#1f77b4 #d62728 #2ca02c #9467bd #ff7f0e #17becf", colour, " ")
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n",
    width, height >svg
  for (i = 1; i <= count[order[1]]; ++i) label(x_of(ranks[order[1], i]), height - bottom + 20, "middle", ranks[order[1], i])
  label((left + width - right) / 2, height - 10, "middle", "ranks of the job")
  for (power = 0; 10 ^ power <= most; ++power) {
    printf "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", left, width - right,
      y_of(10 ^ power), y_of(10 ^ power) >svg
    label(left - 8, y_of(10 ^ power) + 4, "end", sprintf("%d", 10 ^ power))
  }
  for (k = 1; k <= kinds; ++k) {
    line(k, before, 1)
    line(k, now, 0)
    printf "<g fill=\"%s\">\n", colour[k] >svg
    label(width - right + 12, top + 20 * k, "start", order[k])
    print "</g>" >svg
  }
  label(width - right + 12, top + 20 * (kinds + 2), "start", "dashed: before; solid: now")
  label(left, top - 6, "start", "messages of a rank")
  print "</svg>" >svg
  close(svg)
}

END {
  if (kinds == 0) exit
  printf "\nMessages of a rank; one # is a factor of 2\n"
  for (k = 1; k <= kinds; ++k) {
    printf "%s\n", order[k]
    for (i = 1; i <= count[order[k]]; ++i) {
      printf "%8d before %8d %s\n", ranks[order[k], i], before[order[k], i], bar(before[order[k], i])
      printf "%8s now    %8d %s\n", "", now[order[k], i], bar(now[order[k], i])
    }
  }
  if (svg != "") draw()
}
