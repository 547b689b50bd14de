# Prints a table of errors. Input, tab-separated: script, kind of error, error; rows of a script and kind are adjacent
# and ascending, so that quantile() need not sort them.

BEGIN {
  FS = "\t"
  printf "%-16s %-7s %7s %8s %8s %8s\n", "script", "of", "medians", "median", "95%", "largest"
}

function print_row() {
  if (count)
    printf "%-16s %-7s %7d %7.1f%% %7.1f%% %7.1f%%\n", script, kind, count, 100 * quantile(errors, count, 0.5),
      100 * quantile(errors, count, 0.95), 100 * errors[count]
  count = 0
}

$1 != script || $2 != kind { print_row(); script = $1; kind = $2 }
{ errors[++count] = $3 + 0 }
END { print_row() }
