# Compares the counted bytes that a device sends in the forward of a block (tensor-parallel attention) with section 4.2
# of EPS-MoE. Reads the rows of moe_layer --block. P: bytes of the activations of all tokens; D: number of devices.

BEGIN {
  FS = "\t"
  printf "\n%-47s %9s %9s %7s\n", "block with attention TP, bytes sent by a device", "sec. 4.2", "counted", "error"
}
{ read_row() }

function row(text, expected, counted) {
  printf "%-47s %9.0f %9.0f %7s\n", text, expected, counted, error_of(expected, counted)
}
# Returns the sum of the bytes sent in tensor-parallel groups and in expert-parallel groups.
function both(c, s) { return tp_bytes[c, "forward", s] + ep_bytes[c, "forward", s] }

END {
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]; D = field(c, "tp")
    share = field(c, "B") * field(c, "M") * 4 * (D - 1) / D  # bytes of one reduce-scatter or all-gather
    exchange = share / D
    if (field(c, "etp") > 1) {
      row("TP+TP: two AllReduces", 4 * share, both(c, "copies1"))
      row("  Hexad, rows: slot, sum of k rows per token", 2 * share * (1 + field(c, "k")), both(c, "copies"))
    } else if (c ~ /parallel.sp=true/) {
      row("TP+EP: ReduceScatter and AllGather", 2 * share, tp_bytes[c, "forward", "merged"])
      row(sprintf("  dispatch and combine, g = %.2f", token_ranks[c]), 2 * token_ranks[c] * exchange, ep_bytes[c, "forward", "merged"])
      row("  together", 2 * share + 2 * token_ranks[c] * exchange, both(c, "merged"))
      row("  together, one copy per slot", 2 * share + 2 * field(c, "k") * exchange, both(c, "plain"))
    } else {
      row("TP+EP, sp: false: AllReduce, and AllGather after", 3 * share, tp_bytes[c, "forward", "merged"])
      row("  together with dispatch and combine", 3 * share + 2 * token_ranks[c] * exchange, both(c, "merged"))
    }
  }
  print_token_ranks()
}
