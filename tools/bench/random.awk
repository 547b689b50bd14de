# Random choices that are the same in every awk implementation, unlike rand(). Uses the generator of Park and Miller
# (1988), x -> 16807 x mod (2^31 - 1). Its products are exact in the double precision of awk's numbers.

# seed_random(seed, stream, number): selects part `number` (0, 1, ...) of the sequence that `seed` and `stream`
# determine. Each part has 100 values.
function seed_random(seed, stream, number,    i) {
  random_state = 1 + (seed * 7919 + stream * 104729) % 2147483646
  for (i = 1; i <= 100 * (number + 1); i++) random_state = random_state * 16807 % 2147483647
}

# pick(words): returns one of the words in `words`, which are separated by blanks.
function pick(words,    n, list) {
  random_state = random_state * 16807 % 2147483647
  n = split(words, list, " ")
  return list[1 + int(n * random_state / 2147483647)]
}

# divisors(words, n): returns the numbers in `words` that divide n.
function divisors(words, n,    i, count, list, found) {
  count = split(words, list, " ")
  for (i = 1; i <= count; i++) if (n % list[i] == 0) found = found " " list[i]
  return found
}
