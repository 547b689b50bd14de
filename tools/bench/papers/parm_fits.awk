# Prints Parm's Fig. 6. Reads a cluster file of `hexad profile`. Prints for each collective the line alpha + beta x with
# the least sum of squared errors. Also prints the line's distance from the points. As in Parm's costs, x is the number
# of f32 elements of the collective. A rank sends a share of these elements.

/- operation:/ { operation = $3 }
/^ *group:/ { group = $2 }
/^ *ranks:/ { ranks = $2 }
/^ *points:/ && operation != "" {
  gsub(/[^0-9.e+-]+/, " ")
  if (group != "" && ranks != "" && (operation ~ /^all_/ || operation == "reduce_scatter")) fit(operation, group, ranks, $0)
  operation = group = ranks = ""
}

function fit(operation, group, ranks, text,    p, n, i, x, y, share, sx, sy, sxx, sxy, total, left, alpha, beta, error, errors, worst, at) {
  share = (operation == "all_reduce" ? 2 : 1) * (ranks - 1) / ranks
  n = int(split(text, p, " ") / 2)
  for (i = 1; i <= n; i++) {
    x[i] = p[2 * i - 1] / 4 / share; y[i] = p[2 * i]
    sx += x[i]; sy += y[i]
  }
  for (i = 1; i <= n; i++) { sxx += (x[i] - sx / n) ^ 2; sxy += (x[i] - sx / n) * (y[i] - sy / n) }
  if (!sxx) return  # one size does not determine a line
  beta = sxy / sxx; alpha = sy / n - beta * sx / n
  for (i = 1; i <= n; i++) {
    error = y[i] - alpha - beta * x[i]
    left += error ^ 2; total += (y[i] - sy / n) ^ 2
    errors[i] = (error < 0 ? -error : error) / y[i]
    if (errors[i] >= worst) { worst = errors[i]; at = 4 * share * x[i] }
  }
  rows[++row_count] = sprintf("%-15s %-6s %5d %6d | %10.2e %10.2e | %7.4f %7.0f%% %7.0f%% %11.0f", operation, group, ranks, n, alpha,
    beta, total ? 1 - left / total : 1, 100 * median(errors, n), 100 * worst, at)
}

END {
  if (!row_count) exit
  print "\nFig. 6: seconds of a collective of x f32 elements, alpha + beta x, fitted to the points of the profile by least squares"
  print "error: distance from the line as a share of the measured seconds, median; at: bytes that a rank sends at the worst point"
  printf "%-15s %-6s %5s %6s | %10s %10s | %7s %8s %8s %11s\n", "collective", "group", "ranks", "points", "alpha s", "beta s",
    "R^2", "error", "worst", "at"
  for (i = 1; i <= row_count; i++) print rows[i]
  printf "%-29s %6s | %10.2e %10.2e |\n", "paper: AG_MP, 8-GPU server", "", 6.64e-4, 5.38e-10
  printf "%-29s %6s | %10.2e %10.2e |\n", "paper: AG_MP, 32-GPU cluster", "", 1.09e-4, 7.14e-10
}
