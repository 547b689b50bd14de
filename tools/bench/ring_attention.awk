# Prints the table of tools/bench/ring_attention.sh. Input: link, heads, round, what, pass, seconds, waited, in flight,
# bytes.

function bits_per_second(rate) {
  return rate * (rate ~ /gbit$/ ? 1e9 : rate ~ /mbit$/ ? 1e6 : rate ~ /kbit$/ ? 1e3 : 1)
}

{
  if (!seen[$1, $2]++) cases[++count] = $1 SUBSEP $2
  if ($3 > rounds) rounds = $3
  seconds[$1, $2, $4, $5, $3] = $6
  waited[$1, $2, $4, $5, $3] = $7
  bytes[$1, $2, $4, $5] = $9
}

# Prints medians over rounds: seconds; waited / seconds; seconds divided by the seconds of "alone" in the same round;
# and the traffic on a node's link divided by the link's rate. In a ring, one of the node's two ranks sends its bytes to
# the other node. In an all-gather, both ranks send two of their three blocks to the other node.
function row(key, link, what, pass,    r, s, w, a, u, crossing) {
  crossing = what == "all_gather" ? 4 / 3 : 1
  for (r = 1; r <= rounds; r++) {
    s[r] = seconds[key, what, pass, r]
    w[r] = 100 * waited[key, what, pass, r] / s[r]
    a[r] = what == "messages" ? 0 : s[r] / seconds[key, "alone", pass, r]
    u[r] = 100 * 8 * crossing * bytes[key, what, pass] / s[r] / bits_per_second(link)
  }
  split(key, part, SUBSEP)
  printf "%-8s %-6s %-11s %-9s %8.2f %8.1f%% %8s %10.1f %9.1f%%\n", link, part[2], what, pass, median(s, rounds), \
    median(w, rounds), what == "messages" ? "-" : sprintf("%.3f", median(a, rounds)), bytes[key, what, pass] / 1e6, \
    median(u, rounds)
}

END {
  printf "%-8s %-6s %-11s %-9s %8s %9s %8s %10s %10s\n", "link", "heads", "attention", "pass", "seconds", "waiting", \
    "/ alone", "MB/rank", "of link"
  for (c = 1; c <= count; c++) {
    split(cases[c], part, SUBSEP)
    row(cases[c], part[1], "messages", "forward")
    for (p = 1; p <= split("forward backward", passes, " "); p++)
      for (k = 1; k <= split("alone ring all_gather", kinds, " "); k++) row(cases[c], part[1], kinds[k], passes[p])
  }
}
