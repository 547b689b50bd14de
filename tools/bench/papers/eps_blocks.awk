# Prints the forward times of whole blocks. Some blocks are like Mixtral's, with tensor-parallel attention (Table 3).
# Other blocks are like Arctic's, with a dense MLP parallel to the experts (Table 4). Reads the rows of moe_layer
# --block. Distinguishes the blocks by the keys etp, sp and dense_residual of the layer.

BEGIN { FS = "\t" }
{ read_row() }

function row(text, c, s, c0, s0, paper) {
  if (!((c, "forward", s, 1) in seconds)) return
  printf "%-66s %10.0f %8.1f%% %18s\n", text, field(c, "B") / typical(c, "forward", s),
    100 * (typical(c, "forward", s) / typical(c0, "forward", s0) - 1), paper
}
function head(what) { printf "\n%-66s %10s %9s %18s\n", what, "tokens/s", "time", "paper" }

END {
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    if (c ~ /dense_residual/) arctic = c
    else if (field(c, "etp") > 1) base = c
    else if (c ~ /sp=true/) split_rows = c
    else alike = c
  }
  head("attention TP, Mixtral's shape, " field(base, "B") " tokens")
  row("TP+TP, AllReduce", base, "copies1", base, "copies1", "")
  row("TP+EP, PN = 1, sp: false (AllReduce)", alike, "pn1", base, "copies1", "")
  row("TP+EP, PN = 1", split_rows, "pn1", base, "copies1", "-8.3 to -13.7%")
  row("TP+EP, PN = 1, dense", split_rows, "pn1d", base, "copies1", "-15.7 to -19.7%")
  row("TP+EP, PN = 2", split_rows, "pn2", base, "copies1", "")
  row("TP+EP, PN = 2, dense", split_rows, "pn2d", base, "copies1", "-17.7 to -24.3%")
  row("TP+EP, PN = 4", split_rows, "pn4", base, "copies1", "")
  row("TP+EP, PN = 4, dense", split_rows, "pn4d", base, "copies1", "")
  head("dense MLP parallel to the experts, Arctic's shape, " field(arctic, "B") " tokens per rank")
  row("PN = 1", arctic, "pn1", arctic, "pn1", "")
  row("PN = 1, dense", arctic, "pn1d", arctic, "pn1", "")
  row("PN = 1, dense MLP beside the all-to-all", arctic, "pn1b", arctic, "pn1", "")
  row("PN = 4", arctic, "pn4", arctic, "pn1", "")
  row("PN = 4, dense", arctic, "pn4d", arctic, "pn1", "-0.3 to -6.2%")
  row("PN = 4, dense MLP beside the all-to-all", arctic, "pn4b", arctic, "pn1", "")
  row("PN = 8", arctic, "pn8", arctic, "pn1", "")
  row("PN = 8, dense", arctic, "pn8d", arctic, "pn1", "-1.0 to -6.6%")
  row("PN = 8, dense MLP beside the all-to-all", arctic, "pn8b", arctic, "pn1", "")
  print_token_ranks()
}
