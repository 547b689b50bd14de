# Random choices that every awk makes alike, unlike rand(): the generator of Park and Miller (1988), x -> 16807 x mod
# 2^31 - 1, whose products are exact in the double precision of awk's numbers.

# seed_random(seed, stream, number): begins the number-th part of a sequence, 100 values long. Numbers are whole, from 0.
function seed_random(seed, stream, number,    i) {
  random_state = 1 + (seed * 7919 + stream * 104729) % 2147483646
  for (i = 1; i <= 100 * (number + 1); i++) random_state = random_state * 16807 % 2147483647
}

# pick(words): returns one of the words, which are separated by blanks.
function pick(words,    n, list) {
  random_state = random_state * 16807 % 2147483647
  n = split(words, list, " ")
  return list[1 + int(n * random_state / 2147483647)]
}

# divisors(words, n): returns the words that divide n.
function divisors(words, n,    i, count, list, found) {
  count = split(words, list, " ")
  for (i = 1; i <= count; i++) if (n % list[i] == 0) found = found " " list[i]
  return found
}
