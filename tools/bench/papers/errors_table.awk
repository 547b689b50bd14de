# Prints a table of errors. Input, tab-separated: script, kind of error, error; sorted by script, kind and error.
# Variable: headed (1 if the heading was printed before).

BEGIN {
  FS = "\t"
  if (!headed) printf "%-16s %-7s %7s %8s %8s %8s\n", "script", "of", "medians", "median", "95%", "largest"
}

# Returns the quantile of the errors for `share`, interpolated linearly.
function at(share,    place, i) {
  place = 1 + share * (count - 1)
  i = int(place)
  return i == count ? errors[i] : errors[i] + (place - i) * (errors[i + 1] - errors[i])
}
function print_row() {
  if (count)
    printf "%-16s %-7s %7d %7.1f%% %7.1f%% %7.1f%%\n", script, kind, count, 100 * at(0.5), 100 * at(0.95), 100 * errors[count]
  count = 0
}

$1 != script || $2 != kind { print_row(); script = $1; kind = $2 }
{ errors[++count] = $3 }
END { print_row() }
