# Compares the counted bytes that a device sends in a forward with section 4.2 of EPS-MoE. Reads rows of moe_layer.

BEGIN { FS = "\t" }
{ read_row() }

END {
  printf "%-8s %-28s %12s %12s %7s\n", "mode", "bytes a device sends", "section 4.2", "counted", "error"
  for (i = 1; i <= layer_count; i++) {
    c = layers[i]
    D = field(c, "ep"); tp = field(c, "tp"); k = field(c, "k"); g = token_ranks[c]
    P = field(c, "B") * field(c, "M") * 4 * (tp > 1 ? 1 : D)  # bytes of the activations of all devices' tokens
    mode = tp > 1 ? "TP+EP" : "DP+EP"
    exchange = P * (D - 1) / D / D
    printf "%-8s %-28s %12.0f %12.0f %7s\n", mode, "both all-to-alls, per slot", 2 * k * exchange,
      ep_bytes[c, "forward", "plain"], error_of(2 * k * exchange, ep_bytes[c, "forward", "plain"])
    if ("merged" in known)
      printf "%-8s %-28s %12.0f %12.0f %7s\n", mode, sprintf("  per device, g = %.2f", g), 2 * g * exchange,
        ep_bytes[c, "forward", "merged"], error_of(2 * g * exchange, ep_bytes[c, "forward", "merged"])
    if ("groups" in known)
      printf "%-8s %-28s %12.0f %12.0f %7s\n", mode, "  the same, experts in groups", 2 * g * exchange,
        ep_bytes[c, "forward", "groups"], error_of(2 * g * exchange, ep_bytes[c, "forward", "groups"])
    if (tp > 1)
      printf "%-8s %-28s %12.0f %12.0f %7s\n", mode, "all-gather after combine", P * (D - 1) / D,
        tp_bytes[c, "forward", "plain"], error_of(P * (D - 1) / D, tp_bytes[c, "forward", "plain"])
  }
  print_token_ranks()
}
