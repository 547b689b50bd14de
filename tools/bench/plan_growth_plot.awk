# Draws the CPU seconds of planning and of simulating over the ranks of the job, both axes logarithmic. Input: the table
# of plan_growth.sh. Prints an SVG.

function x_of(ranks) {
  if (most_ranks == least_ranks) return left
  return left + (width - left - right) * log(ranks / least_ranks) / log(most_ranks / least_ranks)
}
function y_of(seconds) { return top + (height - top - bottom) * log(most / seconds) / log(most / least) }
function text(x, y, anchor, words) {
  printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, words
}

function line(seconds, colour, name,    i, points) {
  for (i = 1; i <= count; i++) {
    points = points sprintf("%.1f,%.1f ", x_of(ranks[i]), y_of(seconds[i]))
    printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x_of(ranks[i]), y_of(seconds[i]), colour
  }
  printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", points, colour
  text(x_of(ranks[count]) + 8, y_of(seconds[count]) + 4, "start", name)
}

$1 ~ /^[0-9]+$/ && NF == 7 {
  ranks[++count] = $1
  planning[count] = $3
  simulating[count] = $5 < 0.01 ? 0.01 : $5
  if (most_ranks < $1) most_ranks = $1
  if (count == 1 || $1 < least_ranks) least_ranks = $1
}
END {
  if (!count) exit 1
  width = 760; height = 340; left = 70; right = 110; top = 20; bottom = 50
  least = 0.01; most = 100
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" ", width, height
  print "font-family=\"sans-serif\" font-size=\"12\">"
  printf "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height
  for (power = -2; power <= 2; power++) {
    y = y_of(10 ^ power)
    printf "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", left, width - right, y, y
    text(left - 8, y + 4, "end", 10 ^ power)
  }
  for (i = 1; i <= count; i++) text(x_of(ranks[i]), height - bottom + 18, "middle", ranks[i])
  text((left + width - right) / 2, height - 12, "middle", "ranks")
  y = (top + height - bottom) / 2
  printf "<text x=\"16\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 16 %d)\">CPU seconds</text>\n", y, y
  line(planning, "#1f77b4", "hexad plan")
  line(simulating, "#d62728", "hexad simulate")
  print "</svg>"
}
