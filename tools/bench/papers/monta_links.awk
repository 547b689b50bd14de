# Reads a cluster file of `hexad profile`. Prints a row for each size of two collectives: the all-to-all between one
# rank per node, and the all-gather of all ranks inside a node. Columns: links, t, operation, bytes that a rank sends,
# seconds. Variables: links, t.

/- operation:/ { operation = $3 }
/^ *group:/ { group = $2 }
/^ *ranks:/ { ranks = $2 }
/^ *points:/ && (operation == "all_to_all" && group == "inter" || operation == "all_gather" && group == "intra" && ranks == t) {
  gsub(/[^0-9.e+-]+/, " ")
  n = split($0, p, " ")
  for (i = 1; i < n; i += 2) printf "%s\t%d\t%s\t%d\t%s\n", links, t, operation, p[i], p[i + 1]
}
