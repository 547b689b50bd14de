# Returns the average number of devices that a token visits if tokens choose the experts in turn.
function devices(c,    E, k, D, t, j, d, seen_by, sum) {
  E = field(c, "E"); k = field(c, "k"); D = field(c, "ep")
  for (t = 0; t < E; t++) {
    split("", seen_by)
    for (j = 0; j < k; j++) {
      d = int((t * k + j) % E / (E / D))
      if (!(d in seen_by)) { seen_by[d] = 1; sum++ }
    }
  }
  return sum / E
}
