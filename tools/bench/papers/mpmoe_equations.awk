# MPMoE's equations for the memory of an MoE layer, in bytes with f32 elements, for rows that rows.awk has read.

# Returns the model of Table 3 that has this layer.
function model(c,    m) {
  m = field(c, "M")
  return m == 768 ? "GPT-S" : m == 1024 ? "BERT-L" : m == 2048 ? "GPT-XL" : m " x " field(c, "H")
}
# Equation 1: parameters, gradients and the two moments of Adam. Equation 2: activations of a layer in sequence.
# Equation 3: temporary buffers of its backward.
function states(c) { return 4 * 4 * (field(c, "E") * field(c, "M") + 2 * field(c, "H") * field(c, "M")) }
function activations(c,    B, M, H, k) {
  B = field(c, "B"); M = field(c, "M"); H = field(c, "H"); k = field(c, "k")
  return 4 * (2 * B * M + k * (2 * B * M + B * H))
}
function buffers(c) { return 4 * field(c, "k") * field(c, "B") * (field(c, "M") + field(c, "H")) }
# Returns the size in bytes of the elements that the paper counts for n parts, in f32.
function bound(c, n,    B, M, H, k) {
  B = field(c, "B"); M = field(c, "M"); H = field(c, "H"); k = field(c, "k")
  return 4 * 2 * (2 * B * M + k * (4 * B * M + B * H) / n)
}
function equation_6(c, n) { return (2 * activations(c) - bound(c, n)) / (states(c) + 2 * activations(c)) }
