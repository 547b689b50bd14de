# Prints Fig. 13 from the rows of monta_links.awk: the ratio of each collective's rate to the nominal rate, by the bytes
# that a rank sends.

BEGIN { FS = "\t" }

function bits(rate) { return rate * (rate ~ /gbit/ ? 1e9 : rate ~ /mbit/ ? 1e6 : 1e3) }
{
  row = $1 SUBSEP $2 SUBSEP $3
  if (!(row in seen)) { seen[row] = 1; rows[++count] = row }
  size = 2 ^ int(log($4) / log(2) + 0.5)  # sizes are rounded up to whole elements
  split($1, link, ":")
  share[row, size] = 8 * $4 / $5 / bits($3 == "all_to_all" ? link[1] : link[2])
}

END {
  if (!count) exit
  printf "\nEfficiency of the links by volume (Fig. 13), from the profiles: ratio of the rate to the nominal rate\n%-14s %2s %-11s", "links", "t",
    "bytes"
  for (size = 16384; size <= 4194304; size *= 4) printf " %8d", size
  print ""
  for (i = 1; i <= count; i++) {
    split(rows[i], part, SUBSEP)
    printf "%-14s %2d %-11s", part[1], part[2], part[3]
    for (size = 16384; size <= 4194304; size *= 4)
      printf " %8s", (rows[i], size) in share ? sprintf("%.0f%%", 100 * share[rows[i], size]) : "-"
    print ""
  }
}
