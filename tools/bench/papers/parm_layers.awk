# Prints `count` layers of Parm's Table III, each at most once, in an order that `seed` determines. The pairs (N_MP,
# N_ESP) come in turn, and (4, 4) is the last one. The numbers of layers of two pairs differ by at most one.
#
# Each pair has 162 layers: three values of each of B, L, M/N_ESP and H/N_ESP, combined with two values of f (the
# capacity factor). Without the pair (1, 1), for which the schedules have nothing to save, the pairs have 1296 layers,
# the paper's number. (The paper leaves out layers that exceed the memory of its GPUs, but does not name them. Its table
# does not have k.) The layers are scaled for 8 ranks: L and H/N_ESP are divided by 32, and M/N_ESP is divided by 8. k
# is 2, and each EP rank has one expert. In a layer's text, S is the paper's B (number of sequences), and B is the
# paper's L (tokens of a sequence).

function below(n) {
  random_state = random_state * 16807 % 2147483647
  return int(n * random_state / 2147483647)
}

BEGIN {
  pair_count = split("1,2 1,4 2,1 2,2 2,4 4,1 4,2 4,4", pairs, " ")
  for (p = 1; p <= pair_count; p++) {
    split(pairs[p], sizes, ",")
    esp = sizes[2]; n = 0
    for (S = 2; S <= 8; S *= 2)
      for (L = 512; L <= 2048; L *= 2)
        for (M = 1024; M <= 4096; M *= 2)
          for (H = 1024; H <= 4096; H *= 2)
            for (f = 1.2; f <= 2.4; f += 1.2)
              layer[p, ++n] = sprintf("M=%d,H=%d,S=%d,B=%d,E=%d,k=2,tp=%d,etp=%d,ep=%d,model.moe.capacity_factor=%.1f",
                esp * M / 8, esp * H / 32, S, L / 32, 8 / esp, sizes[1], esp, 8 / esp, f)
  }
  seed_random(seed, 0, 0)
  for (p = 1; p <= pair_count; p++)
    for (i = n; i > 1; i--) {
      j = 1 + below(i)
      other = layer[p, i]; layer[p, i] = layer[p, j]; layer[p, j] = other
    }
  for (i = 0; i < count; i++) {
    p = 1 + (i + pair_count - count % pair_count) % pair_count
    print layer[p, ++taken[p]]
  }
}
