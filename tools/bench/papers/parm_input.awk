# Reads a cluster file that `hexad profile` measured on 2 nodes of 4 ranks. Prints the input of `hexad simulate --paper
# parm` for a layer (variable `layer`: "M=64,H=128,B=512,E=8,k=1,tp=2,etp=1,ep=8", optionally with "S=2", the number of
# sequences, and "model.moe.capacity_factor=1.2"). Parm's costs count all elements of a collective, not only the
# elements that a rank sends.

/- operation:/ { operation = $3 }
/^ *group:/ { group = $2 }
/^ *ranks:/ { ranks = $2 }
/^ *points:/ {
  gsub(/[^0-9.e+-]+/, " ")
  points[operation, group, ranks] = $0
}

# Prints the measured points of a collective in f32 elements. A rank sends `share` of the elements.
function measured(key, operation, group, ranks, share,    p, n, i) {
  n = split(points[operation, group, ranks], p, " ")
  printf "measured_%s: [", key
  for (i = 1; i < n; i += 2) printf "%s[%.1f, %s]", (i > 1 ? ", " : ""), p[i] / 4 / share, p[i + 1]
  print "]"
}

END {
  count = split(layer, letters, ",")
  for (i = 1; i <= count; i++) {
    split(letters[i], pair, "=")
    v[pair[1]] = pair[2]
  }
  f = "model.moe.capacity_factor" in v ? v["model.moe.capacity_factor"] : 1
  printf "B: %d\nL: %d\nM: %d\nE: %d\nk: %d\nf: %s\nN_MP: %d\nN_EP: %d\nN_ESP: %d\n", "S" in v ? v["S"] : 1, v["B"],
    v["M"], v["E"], v["k"], f, v["tp"], v["ep"], v["etp"]
  measured("A2A", "all_to_all", "all", 8, 7 / 8)
  if (v["tp"] > 1) measured("AG_MP", "all_gather", "intra", v["tp"], (v["tp"] - 1) / v["tp"])
  # An EP group of 2 has one rank on each node. A larger EP group has half of its ranks on each node, like the group of
  # all ranks.
  if (v["ep"] == 2) measured("A2A_EP", "all_to_all", "inter", 2, 1 / 2)
  else measured("A2A_EP", "all_to_all", "all", 8, 7 / 8)
  if (v["etp"] > 1) {
    measured("AG_ESP", "all_gather", "intra", v["etp"], (v["etp"] - 1) / v["etp"])
    measured("AR_ESP", "all_reduce", "intra", v["etp"], 2 * (v["etp"] - 1) / v["etp"])
  } else print "alpha_AG_ESP: 0\nbeta_AG_ESP: 0\nalpha_AR_ESP: 0\nbeta_AR_ESP: 0"
}
