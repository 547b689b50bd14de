# Prints the cost of groups of experts that do not overlap (Fig. 11), from rows of moe_layer.

BEGIN { FS = "\t" }
{ read_row() }
END { print_cutting("forward", "pn1", "pn") }
